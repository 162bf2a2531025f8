import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

export interface Server {
  url: string;
  /** The owner's. */
  token: string;
  /** The URL of its database, as its owner; that of an administrator has the user postgres. */
  database: string;
  /** A directory of its own, which goes when it stops. */
  directory: string;
  /** The data directory. */
  data: string;
  /** api calls the API as the owner, and throws where the answer is none of success. */
  api: (method: string, path: string, body?: unknown) => Promise<unknown>;
  /** kill ends it as the end of its machine would. */
  kill: () => Promise<void>;
  /** restart starts it again after kill, at the same address. */
  restart: () => Promise<void>;
  stop: () => Promise<void>;
}

export const repository = join(import.meta.dirname, "../..");

const binary = join(repository, "bin/prewarm");

const execute = promisify(execFile);

/**
 * go calls the Go command in the repository, and waits for its end. To build takes minutes where nothing was built yet; were
 * this process to stand still for so long, it would not see that the server closes what is idle, and write there.
 */
export async function go(...args: string[]): Promise<string> {
  const { stdout } = await execute("go", args, { cwd: repository, maxBuffer: 64 << 20 });
  return stdout;
}

/** startServer starts the binary with a database of its own, in a directory that goes with it. */
export async function startServer(...args: string[]): Promise<Server> {
  const root = directory();
  const data = join(root, "data");
  const { url, child } = await start(data, args);
  const token = readFileSync(join(data, "owner-token"), "utf8").trim();
  // Its PostgreSQL listens nowhere but at a socket in its own directory.
  const socket = encodeURIComponent(join(data, "postgres"));
  const database = `postgres://prewarm@/prewarm?host=${socket}&port=5432&sslmode=disable`;
  return serverOf(url, token, database, root, child, args);
}

/** startReplica starts another replica over the database of one. It has to end first. */
export async function startReplica(of: Server, ...args: string[]): Promise<Server> {
  const root = directory();
  const { url, child } = await start(join(root, "data"), ["--postgres-url", of.database, ...args]);
  return serverOf(url, of.token, of.database, root, child, ["--postgres-url", of.database, ...args]);
}

function directory(): string {
  const root = mkdtempSync(join(tmpdir(), "prewarm-e2e-"));
  chmodSync(root, 0o755); // PostgreSQL runs as another user where we are root
  return root;
}

async function start(data: string, args: string[]): Promise<{ url: string; child: ChildProcess }> {
  if (!existsSync(binary)) throw new Error(`${binary} is not there: run make build`);
  const child = spawn(binary, ["server", "--listen", "127.0.0.1:0", "--data-dir", data, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let log = "";
  child.stderr.on("data", (chunk) => (log = (log + chunk).slice(-20_000)));
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.on("data", (chunk) => {
      out += chunk;
      const at = /Prewarm is at (http:\S+)\n/.exec(out);
      if (at?.[1]) resolve(at[1]);
    });
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}:\n${log}`)));
    child.on("error", reject);
  });
  return { url, child };
}

function serverOf(url: string, token: string, database: string, root: string, started: ChildProcess, args: string[]): Server {
  let child = started;
  const end = async (signal: NodeJS.Signals) => {
    const ended = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
    child.kill(signal);
    await ended;
  };
  return {
    url,
    token,
    database,
    directory: root,
    data: join(root, "data"),
    api: async (method, path, body) => {
      const response = await fetch(url + path, {
        method,
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
      return text === "" ? undefined : JSON.parse(text);
    },
    kill: () => end("SIGKILL"),
    restart: async () => {
      ({ child } = await start(join(root, "data"), [...args, "--listen", new URL(url).host]));
    },
    stop: async () => {
      await end("SIGTERM");
      endWorkspaces(root);
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/** endWorkspaces ends the local workspaces below a directory, which outlive their server: each goes with its supervisor. */
export function endWorkspaces(root: string): void {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const [, command, directory] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      if (command === "local-supervisor" && directory?.startsWith(`${root}/`)) process.kill(Number(pid), "SIGKILL");
    } catch {
      // It has ended meanwhile.
    }
  }
}

export interface Balancer {
  url: string;
  stop: () => Promise<void>;
}

/** startBalancer is an address before several replicas: each connection goes to the first of them that takes it. */
export async function startBalancer(...servers: Server[]): Promise<Balancer> {
  const open = new Set<Socket>();
  const keep = (socket: Socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    socket.on("error", () => undefined); // what a killed replica leaves; "close" follows
  };
  const forward = (client: Socket, [server, ...others]: Server[]) => {
    if (!server) {
      client.destroy();
      return;
    }
    const { hostname, port } = new URL(server.url);
    const upstream = connect(Number(port), hostname);
    let connected = false;
    keep(upstream);
    upstream.on("connect", () => {
      connected = true;
      client.pipe(upstream).pipe(client);
    });
    upstream.on("close", () => {
      if (connected || client.destroyed) client.destroy();
      else forward(client, others);
    });
    client.on("close", () => upstream.destroy());
  };
  const listener = createServer((client) => {
    keep(client);
    forward(client, servers);
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    stop: async () => {
      const closed = once(listener, "close");
      listener.close();
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

/** until asks again and again whether something is so, which it has to be within a minute and a half. */
export async function until(what: string, ask: () => Promise<boolean>): Promise<void> {
  for (let left = 450; left > 0; left--) {
    if (await ask()) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`it did not come to this: ${what}`);
}

/**
 * fillForges makes the ready prebuilds of a pool, of which there are to be so many, runners of a forge, with jobs of all kinds,
 * two more forges beside it, and returns the name of one that is at a job. Nobody is at the forges' addresses.
 */
export async function fillForges(server: Server, pool: string, ready: number): Promise<string> {
  const [template, preset] = pool.split("/");
  await until(`${pool} has ${ready} ready`, async () => {
    const of = (await server.api("GET", `/api/v1/presets/${template}/${preset}`)) as { actual: number };
    return of.actual >= ready;
  });
  const address = server.database.replace("//prewarm@/prewarm", "//postgres@/prewarm");
  await go("run", "./scripts/benchtest", "-fill", address, "-forge", pool);
  const { runners } = (await server.api("GET", "/api/v1/runners?status=active")) as { runners: { name: string }[] };
  return runners[0]?.name ?? "";
}

export interface Forge {
  /** Of its API, as GitHub Enterprise Server has it. */
  api: string;
  token: string;
  /** The program that registers as its runner, and does one job. */
  runner: string;
  /** call calls its API as a person with the token. */
  call: (method: string, path: string, body?: unknown) => Promise<unknown>;
  stop: () => Promise<void>;
}

/** startForge starts the repository's forge for tests, over real HTTP, with one organization, acme. Its programs go with the server. */
export async function startForge(server: Server): Promise<Forge> {
  const programs = join(server.directory, "forge");
  await go("build", "-o", `${programs}/`, "./coderd/demand/forgetest/serve", "./coderd/demand/forgetest/runner");
  const token = "ghp_token-of-the-browser-tests";
  const child = spawn(join(programs, "serve"), ["orgs/acme"], { env: { FORGE_TOKEN: token }, stdio: ["pipe", "pipe", "inherit"] });
  const api = await new Promise<string>((resolve, reject) => {
    let out = "";
    child.stdout.on("data", (chunk) => {
      out += chunk;
      const at = /The forge is at (http:\S+)\n/.exec(out);
      if (at?.[1]) resolve(at[1]);
    });
    child.on("exit", (code) => reject(new Error(`the forge ended with ${code}`)));
    child.on("error", reject);
  });
  return {
    api,
    token,
    runner: join(programs, "runner"),
    call: async (method, path, body) => {
      const response = await fetch(api + path, {
        method,
        headers: { Authorization: `Bearer ${token}` },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
      return response.json();
    },
    stop: async () => {
      const ended = child.exitCode === null ? once(child, "exit") : undefined;
      child.stdin.end();
      await ended;
    },
  };
}
