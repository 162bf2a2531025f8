import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, chmodSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browsing, live, patience, startBrowser } from "./browser";
import { pictures } from "./demo";
import { Keyboard, keyboardAlone } from "./keyboard";
import { endWorkspaces, go, repository } from "./server";
import { Terminal } from "./terminal";

// The first hour of a newcomer: docs/first-hour.md step by step, with its commands and those of README.md, at real terminals
// and in a browser without a mouse. PREWARM_FIRST_HOUR=full is all of it, =pictures also makes the pictures of that page;
// otherwise only what `make test` has time for.
const how = process.env["PREWARM_FIRST_HOUR"] ?? "short";
const full = how !== "short";

const text = (name: string) => readFileSync(join(repository, name), "utf8");

/** blocks are the code blocks of a language below a heading of a document. */
function blocks(name: string, heading: string, language: string): string[] {
  const section = text(name).split(/^## /m).find((s) => s.startsWith(`${heading}\n`));
  if (!section) throw new Error(`${name} has no heading ${heading}`);
  return [...section.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(([, block = ""]) => block);
}

/** commands are those that a document has below a heading, without comments. */
function commands(name: string, heading: string): string[] {
  return blocks(name, heading, "sh").flatMap((b) => b.trim().split("\n")).map((line) => line.replace(/\s+#.*$/, ""));
}

/** command is the one of docs/first-hour.md that begins so. */
function command(heading: string, begin: string): string {
  const found = commands("docs/first-hour.md", heading).find((c) => c.startsWith(begin));
  if (!found) throw new Error(`docs/first-hour.md has no ${begin} in ${heading}`);
  return found;
}

let browser: Browser;
let engine: { host: string; stop: () => Promise<void> } | undefined;
/** Where the newcomer is: programs and examples of the repository, and a home of its own. */
let folder: string;
let address: string;
const terminals: Terminal[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "prewarm-e2e-"));
  chmodSync(folder, 0o755); // PostgreSQL and workspaces run as other users where we are root
  for (const name of ["bin", "examples"]) symlinkSync(join(repository, name), join(folder, name));
  address = `127.0.0.1:${await freePort()}`;
  [browser, engine] = await Promise.all([startBrowser(), full ? startEngine() : undefined]);
});
afterAll(async () => {
  await browser?.close();
  await Promise.all(terminals.map((t) => t.close()));
  const server = serverProcess();
  if (server) process.kill(server, "SIGTERM");
  while (serverProcess()) await new Promise((resolve) => setTimeout(resolve, 50));
  await engine?.stop();
  endWorkspaces(folder);
  rmSync(folder, { recursive: true, force: true });
});

async function freePort(): Promise<number> {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  listener.close();
  await once(listener, "close");
  return port;
}

/** startEngine starts a container engine of its own, which goes with this process. */
async function startEngine(): Promise<{ host: string; stop: () => Promise<void> }> {
  const program = join(folder, "engine");
  await go("build", "-o", program, "./coderd/provider/docker/dockertest/serve");
  const child: ChildProcess = spawn(program, { stdio: ["pipe", "pipe", "inherit"] });
  const host = await new Promise<string>((resolve, reject) => {
    child.stdout?.on("data", (chunk) => {
      const at = /The engine is at (\S+)/.exec(String(chunk));
      if (at?.[1]) resolve(at[1]);
    });
    child.on("exit", (code) => reject(new Error(`the container engine ended with ${code}`)));
    child.on("error", reject);
  });
  return {
    host,
    stop: async () => {
      const ended = child.exitCode === null ? once(child, "exit") : undefined;
      child.stdin?.end();
      await ended;
    },
  };
}

/** terminal opens a terminal of a person, whose home is in the folder. */
function terminal(person: string): Terminal {
  const home = join(folder, person);
  mkdirSync(home, { recursive: true });
  const opened = new Terminal(folder, {
    HOME: home,
    PATH: person === "owner" ? process.env["PATH"] : `${join(folder, "bin")}:${process.env["PATH"]}`, // hers is installed
    LANG: "C.UTF-8",
    ...(engine && { DOCKER_HOST: engine.host }),
  });
  terminals.push(opened);
  return opened;
}

/** serverProcess is the process that the first terminal started. */
function serverProcess(): number | undefined {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      if (words[0]?.endsWith("bin/prewarm") && words[1] === "server" && words.includes(address)) return Number(pid);
    } catch {
      // It has ended meanwhile.
    }
  }
  return undefined;
}

/** startCommand is what `make run`, the first command of the README, runs after the build. */
function startCommand(): string {
  expect(commands("README.md", "Try it")[0]).toBe("make run");
  const out = execFileSync("make", ["-n", "run", `ARGS=--listen ${address}`], { cwd: repository, encoding: "utf8" });
  return /^bin\/prewarm server .*$/m.exec(out)?.[0] ?? "";
}

const pools = (page: Page) => page.getByRole("list", { name: "Pools", exact: true });
const row = (page: Page, name: string) => pools(page).getByRole("listitem").filter({ has: page.getByRole("link", { name }) });
const place = (page: Page, name: string) => page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true });
const heading = (page: Page, name: string | RegExp) => page.getByRole("heading", { level: 1, name }).waitFor();
const badge = (page: Page, text: string | RegExp) => page.locator("main header").getByText(text).first().waitFor();

/** picture makes one of docs/first-hour.md, where that is what was asked for. */
async function picture(page: Page, name: string): Promise<void> {
  expect(text("docs/first-hour.md")).toContain(`images/first-hour-${name}.png`);
  if (how !== "pictures") return;
  await page.waitForLoadState("networkidle", { timeout: 1_000 }).catch(() => undefined);
  await expect.poll(() => page.getByRole("button", { name: "Dismiss" }).count(), { timeout: patience }).toBe(0);
  await page.screenshot({ path: join(pictures, `first-hour-${name}.png`), caret: "hide" });
}

/** act says which part of the hour failed, and how long each took. */
async function act(name: string, does: () => Promise<void>): Promise<void> {
  const began = performance.now();
  try {
    await does();
  } catch (e) {
    if (e instanceof Error) e.message = `${name}: ${e.message}`;
    throw e;
  }
  console.info(`${name}: ${((performance.now() - began) / 1_000).toFixed(1)} s`);
}

test("the first hour, by keyboard alone", { timeout: 900_000 }, async () => {
  const serverTerminal = terminal("owner");
  const shell = terminal("owner");
  await browsing(
    browser,
    "first-hour",
    async (context, problems) => {
      const page = await context.newPage();
      keyboardAlone(page);
      const keys = new Keyboard(page);
      let url = "";

      await act("Start it", async () => {
        const from = serverTerminal.type(startCommand());
        url = (await serverTerminal.says(/Prewarm is at (\S+)/, from))[1] ?? "";
        const file = (await serverTerminal.says(/The owner's token is in (\S+)/, from))[1] ?? "";
        const [, claim = ""] = commands("README.md", "Try it");
        // The line that the server prints works as it is printed.
        const [, look = ""] = await serverTerminal.says(/Look: +(.*) --watch/, from);
        await expect.poll(() => shell.run(look), { timeout: patience }).toMatch(/quickstart\/default +3\/3 +0 +ready/);
        const at = shell.type(claim); // one is inside, in a shell
        await shell.says(/\n[$#] $/, at);
        shell.type("cat project/README; exit");
        await shell.says(/You were expected\.[^]*\]\$ $/, at);

        await page.goto(url);
        await expect((async () => page.getByRole("button").click())()).rejects.toThrow("not done by keyboard");
        await page.getByLabel("Token").and(page.locator(":focus")).waitFor();
        await page.keyboard.type("pw_wrong");
        await page.keyboard.press("Enter");
        await page.getByRole("alert").getByText("not valid").waitFor();
        await keys.write(page.getByLabel("Token"), (await shell.run(`cat ${file}`)).trim());
        await page.keyboard.press("Enter");
        await heading(page, "Pools");
        await row(page, "quickstart/default").getByRole("img", { name: "3 ready", exact: true }).waitFor();
        await live(page);
        await picture(page, "start");
      });

      await act("Write a template", async () => {
        const [source = ""] = blocks("README.md", "A pool of your own", "yaml");
        writeFileSync(join(folder, "dev.yaml"), source);
        const [path = "", dryRun = "", apply = "", claim = ""] = commands("docs/first-hour.md", "Write a template");
        expect(text("README.md")).toContain(path);
        await shell.run(path);
        expect(await shell.run(dryRun)).toContain("5 prebuilds are built");
        await shell.run(apply);
        await row(page, "dev/default").getByRole("img", { name: "5 ready", exact: true }).waitFor();
        await keys.find("dev/def", /dev\/default/);
        await heading(page, "dev/default");
        await badge(page, "Warm");
        await picture(page, "template");
        const got = await shell.run(claim);
        expect(got).toMatch(/Outcome +hit/);
        const enter = /Enter it with: +(.*) -- sh/.exec(got)?.[1] ?? "";
        expect(await shell.run(`${enter} -- make -C project`)).toContain("built");
        await shell.run(/Give it back: +(.*)/.exec(got)?.[1] ?? "");
      });

      await act("Claim on the page", () => claimOnPage(page, keys, url));

      if (full) {
        await act("Try containers", async () => {
          const [image = "", apply = "", list = "", claim = ""] = commands("docs/first-hour.md", "Try containers");
          expect(await shell.run(image)).toContain("made prewarm.example/hello:1");
          await shell.run(apply);
          await expect.poll(() => shell.run(list), { timeout: patience }).toMatch(/containers\/default +2\/2 +0 +ready/);
          expect(await shell.run(claim)).toContain("root:x:0:0::/:/bin/sh");
          await keys.find("containers", /containers\/default/);
          await heading(page, "containers/default");
          await badge(page, "Warm");
          await picture(page, "docker");
        });
      }

      await act("Break a template, and mend it", async () => {
        const here = "Break a template, and mend it";
        await shell.run(command(here, "sed"));
        await shell.run(command(here, "prewarm apply"));
        await keys.enter(place(page, "Pools"));
        const attention = page.getByRole("region", { name: "Needs attention" });
        await attention.getByText("mkdri: not found").waitFor();
        await expect.poll(() => shell.run(command(here, "prewarm preset list")), { timeout: patience }).toMatch(/shop\/default .*mkdri/);
        expect(await shell.run(command(here, "prewarm explain"))).toContain("mkdri: not found");
        await keys.enter(attention.getByRole("link", { name: "shop/default" }));
        await heading(page, "shop/default");
        await badge(page, "Creates fail");
        await badge(page, /mkdri: not found/);
        const causes = page.getByRole("region", { name: "Failures by cause" });
        await causes.getByText("mkdri: not found").first().waitFor();
        await picture(page, "broken");
        // The page's own way to mend it.
        await keys.enter(causes.getByRole("link", { name: "Mend the template" }));
        await heading(page, "Apply a file");
        const file = page.getByRole("textbox");
        await expect.poll(() => file.inputValue(), { timeout: patience }).toContain("mkdri");
        await keys.write(file, (await file.inputValue()).replace("mkdri", "mkdir"));
        await keys.enter(page.getByRole("button", { name: "Show what it does" }));
        await page.getByRole("region", { name: "What the file changes" }).waitFor();
        await page.getByText(/spec.setup: .*mkdri project && cd.* → .*mkdir project && cd/).waitFor();
        await keys.reach(page.getByRole("button", { name: "Apply this plan" }));
        await picture(page, "mended");
        await keys.enter(page.getByRole("button", { name: "Apply this plan" }));
        await page.getByText("Applied:").waitFor();
        await keys.enter(place(page, "Pools"));
        await row(page, "shop/default").getByRole("img", { name: "5 ready", exact: true }).waitFor();
        await attention.waitFor({ state: "detached" });
        expect(await shell.run(command(here, "prewarm preset list"))).toMatch(/shop\/default +5\/5 +0 +ready/);
      });
      if (!full) return;

      await act("Invite a member", async () => {
        await keys.enter(place(page, "Users & tokens"));
        await keys.enter(page.getByRole("button", { name: "Create token" }).first());
        const dialog = page.getByRole("dialog");
        await keys.write(dialog.getByLabel("Name"), "laptop");
        await keys.write(dialog.getByLabel("For whom"), "alice");
        expect(await dialog.getByLabel("Role of the new user").inputValue()).toBe("member");
        await keys.enter(dialog.getByRole("button", { name: "Create token" }));
        const secret = (await dialog.getByText(/^pw_/).textContent()) ?? "";
        const login = (await dialog.getByText(/^prewarm login/).textContent()) ?? "";
        await picture(page, "invite");
        await keys.enter(dialog.getByRole("button", { name: "Done" }));
        await member(url, secret, login);
      });

      await act("Change the template", async () => {
        const here = "Change the template";
        await keys.find("dev/def", /dev\/default/);
        await heading(page, "dev/default");
        await badge(page, "Warm");
        await page.evaluate(() => {
          const said = new Set<string>();
          Object.assign(window, { said });
          const look = () => said.add(document.querySelector("main header")?.textContent ?? "");
          new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
        });
        await shell.run(command(here, "sed"));
        await shell.run(command(here, "prewarm apply"));
        await badge(page, "Rolling out: 5 claimable");
        await page.getByText(/^Version 2 rolls out:/).waitFor();
        await picture(page, "rollout");
        expect(await shell.run(command(here, "prewarm explain"))).toMatch(/^Rolling out: \d claimable/m);
        await page.getByText(/^Version 2 rolls out:/).waitFor({ state: "detached" });
        await badge(page, "Warm");
        const said = await page.evaluate(() => [...(window as unknown as { said: Set<string> }).said]);
        expect(said.length).toBeGreaterThan(1);
        expect(said.filter((s) => /Not warm|Filling|Empty/.test(s))).toEqual([]);
      });

      await act("Pause", async () => {
        await keys.enter(place(page, "Pools"));
        await keys.enter(page.getByRole("button", { name: "Pause…" }));
        const dialog = page.getByRole("dialog");
        await keys.choose(dialog.getByLabel("For how long"), "30 minutes");
        await keys.write(dialog.getByLabel("Reason"), "the disk is being replaced");
        await keys.enter(dialog.getByRole("button", { name: "Pause", exact: true }));
        const banner = page.getByRole("region", { name: "Global pause" });
        await banner.getByText(/All pools are paused by owner: the disk is being replaced.* ends in (29|30) min/s).waitFor();
        expect(await shell.run("prewarm pause list")).toContain("the disk is being replaced");
        await picture(page, "pause");
        expect(await shell.run("prewarm claim quickstart/default --exec -- echo claims go on")).toContain("claims go on");
        await keys.enter(banner.getByRole("button", { name: "Resume" }));
        await keys.enter(page.getByRole("dialog").getByRole("button", { name: "Resume" }));
        await banner.waitFor({ state: "detached" });

        await keys.enter(row(page, "shop/default").getByRole("link", { name: "shop/default" }));
        await heading(page, "shop/default");
        await keys.enter(page.getByRole("button", { name: "Pause", exact: true }));
        await keys.write(dialog.getByLabel("Reason"), "stock-taking");
        await page.keyboard.press("Enter");
        await page.getByText("Paused (preset: stock-taking)").waitFor();
        await keys.enter(page.getByRole("button", { name: "Resume" }));
        await keys.enter(page.getByRole("dialog").getByRole("button", { name: "Resume" }));
        await page.getByText("Paused (preset: stock-taking)").waitFor({ state: "detached" });
        await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
      });

      await act("Lose the server", async () => {
        await keys.enter(place(page, "Pools"));
        await row(page, "dev/default").getByRole("img", { name: "5 ready", exact: true }).waitFor();
        await live(page);
        await shell.run(`kill -9 ${serverProcess()}`);
        const banner = page.getByRole("region", { name: "Lost server" });
        await banner.getByText("The server does not answer.").waitFor();
        await banner.getByText(/What you see is [\d.]+ (s|min).* old\. (Next try in \d+ s\.|Trying now\.)/).waitFor();
        await row(page, "dev/default").waitFor(); // what was known stays
        await picture(page, "lost");
        const from = serverTerminal.type(startCommand());
        await serverTerminal.says(/Prewarm is at/, from);
        await banner.waitFor({ state: "detached" });
        await live(page);
        await row(page, "dev/default").getByRole("img", { name: "5 ready", exact: true }).waitFor();
        expect(await shell.run("prewarm claim dev/default --exec -- echo it is back")).toContain("it is back");
        problems.splice(0, problems.length, ...problems.filter((p) => !/net::ERR_|WebSocket connection|Failed to fetch dynamically/.test(p)));
      });
    },
    { viewport: { width: 1120, height: 700 }, colorScheme: "light", reducedMotion: "reduce" },
  );
});

/** claimOnPage takes a workspace and gives it back, which a second tab sees as it happens. */
async function claimOnPage(page: Page, keys: Keyboard, url: string): Promise<void> {
  const second = await page.context().newPage();
  const others = new Keyboard(second);
  await second.goto(url);
  const strip = (name: string | RegExp) => row(second, "dev/default").getByRole("img", { name, exact: true }).waitFor();
  await strip("5 ready");
  await live(second);
  await keys.enter(page.getByRole("button", { name: "Claim one" }));
  const began = performance.now();
  await strip(/1 claimed/);
  console.info(`the second tab saw the claim ${Math.round(performance.now() - began)} ms after the key`);
  await heading(page, /^prebuild-/);
  await strip("5 ready, 1 claimed"); // it fills up again by itself

  // Its page shows its life; a release says first what it does, and is followed to its end.
  const timeline = page.getByRole("region", { name: "Timeline" });
  await timeline.getByText("ready", { exact: true }).first().waitFor();
  const release = page.getByRole("button", { name: "Release", exact: true });
  await keys.enter(release.first());
  const dialog = page.getByRole("dialog", { name: /^Release prebuild-/ });
  await dialog.getByText("The claim of owner ends").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  await keys.enter(release.first());
  await keys.enter(dialog.getByRole("button", { name: "Release" }));
  await timeline.getByText("deleted", { exact: true }).waitFor();
  await strip("5 ready");

  // A page's address is its own: it can be loaded again, and what is filtered is in it.
  await page.reload();
  await heading(page, /^prebuild-/);
  await others.write(second.getByRole("searchbox"), "nothing like it");
  await second.getByText("No pool matches").waitFor();
  expect(second.url()).toContain("q=");
  await second.reload();
  await second.getByText("No pool matches").waitFor();
  await second.goto(`${url}/no/such/page`);
  await second.getByRole("heading", { name: "Page not found" }).waitFor();
  await second.close();
}

/** member is what alice does with the secret that she was given. */
async function member(url: string, secret: string, login: string): Promise<void> {
  const shell = terminal("alice");
  await shell.says(/\$ $/);
  const from = shell.type(login);
  await shell.says(/Token: $/, from);
  shell.type(secret);
  await shell.says(/Logged in to \S+ as alice \(member\)\.\n[^]*\]\$ $/, from);
  expect(await shell.run("prewarm whoami")).toContain("alice");
  await browsing(
    browser,
    "first-hour-member",
    async (context, problems) => {
      const page = await context.newPage();
      const keys = new Keyboard(page);
      await page.goto(url);
      await page.getByLabel("Token").and(page.locator(":focus")).waitFor();
      await page.keyboard.type(secret);
      await page.keyboard.press("Enter");
      await heading(page, "My workspaces");
      await page.getByText("You have no workspace").waitFor();
      for (const name of ["Jobs", "Providers", "Replicas", "Audit"]) expect(await place(page, name).count(), name).toBe(0);

      await keys.enter(page.getByRole("button", { name: "Claim dev/default" }));
      const held: Locator = page.getByRole("list", { name: "Workspaces that you have" });
      const enter = (await held.getByText(/^prewarm exec prebuild-/).textContent()) ?? "";
      const at = shell.type(enter);
      await shell.says(/\n[$#] $/, at);
      shell.type("cat project/Makefile; exit");
      await shell.says(/all: ; @echo built[^]*\]\$ $/, at);

      await keys.enter(held.getByRole("button", { name: "Renew" }));
      const dialog = page.getByRole("dialog");
      await keys.choose(dialog.getByLabel("From now on for"), "4 hours");
      await keys.enter(dialog.getByRole("button", { name: "Renew" }));
      await held.getByText(/^3 h 59 min left \(until .+\)\.$/).waitFor();
      await dialog.waitFor({ state: "hidden" });
      await picture(page, "member");
      await keys.enter(held.getByRole("button", { name: "Release" }));
      await keys.enter(page.getByRole("dialog").getByRole("button", { name: "Release" }));
      await page.getByText("You have no workspace").waitFor();

      // An address of an operator's page that she was sent says that it is not for her.
      await page.goto(`${url}/audit`);
      await page.getByText(/Your role \(member\) cannot/).waitFor();
      expect(await shell.run("prewarm audit list", 1)).toContain("Your role (member) cannot");
      problems.splice(0, problems.length, ...problems.filter((p) => !/status of 403/.test(p)));
    },
    { viewport: { width: 1120, height: 700 }, colorScheme: "light", reducedMotion: "reduce" },
  );
}

test("the pictures of docs/first-hour.md are there, and small", () => {
  const names = [...text("docs/first-hour.md").matchAll(/images\/(first-hour-\w+\.png)/g)].map(([, name = ""]) => name);
  expect(names.length).toBeGreaterThan(8);
  const sizes = names.map((name) => statSync(join(pictures, name)).size);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(1_500_000);
});
