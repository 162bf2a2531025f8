import { execFileSync } from "node:child_process";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accessible } from "./axe";
import { browsing, signIn, startBrowser } from "./browser";
import { repository, startServer, until, type Server } from "./server";

const configuration = `
providers:
  - {name: cloud, kind: sim}
templates:
  - name: web
    provider: cloud
    spec: {create_latency: 10ms, ready_latency: 10ms}
    presets: [{name: default, prebuilds: {instances: 2}}]
  - name: slow
    provider: cloud
    spec: {create_latency: 10ms, ready_latency: 1h}
    presets: [{name: default, prebuilds: {instances: 1}}]
  - name: broken
    provider: cloud
    spec: {create_latency: 10ms, fail_permanent: 1}
    presets: [{name: default, prebuilds: {instances: 1}}]
`;

let server: Server;
let browser: Browser;
/** Of the member alice, made as the sign-in page says. */
let token: string;

const binary = join(repository, "bin/prewarm");

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--tick", "1s", "--quickstart"), startBrowser()]);
  await server.api("POST", "/api/v1/apply", { document: configuration, file: "member.yaml" });
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** cli runs a command as it is written, with a token. */
function cli(command: string, as: string): string {
  const [, ...args] = command.split(" ");
  return execFileSync(binary, args, {
    env: { ...process.env, PREWARM_URL: server.url, PREWARM_TOKEN: as, HOME: server.directory },
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

test("the command that sign-in suggests makes a member's token that ends", async () => {
  await browsing(browser, "member-token", async (context) => {
    const page = await context.newPage();
    await page.goto(`${server.url}/sign-in`);
    const command = (await page.getByText(/^prewarm token create/).textContent()) ?? "";
    token = /pw_\S+/.exec(cli(command, server.token))?.[0] ?? "";
    const tokens = (await server.api("GET", "/api/v1/tokens")) as { user: string; role: string; expires_at?: string }[];
    const made = tokens.find((t) => t.user === "alice");
    expect(made?.role).toBe("member");
    expect(Date.parse(made?.expires_at ?? "") - Date.now()).toBeGreaterThan(29 * 86_400_000);
  });
});

test("a member sees what is theirs, claims with one button, enters, renews, releases, and cancels a wait", async () => {
  await browsing(browser, "member", async (context) => {
    const page = await context.newPage();
    await page.goto(`${server.url}/sign-in`);
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { level: 1, name: "My workspaces" }).waitFor();
    await page.getByText("You have no workspace").waitFor();
    const places = page.getByRole("navigation", { name: "Pages" });
    for (const name of ["Jobs", "Providers", "Replicas", "Audit"]) {
      expect(await places.getByRole("link", { name, exact: true }).count(), name).toBe(0);
    }
    const pools = page.getByRole("list", { name: "Pools that you can claim from" });
    const row = (name: string) => pools.getByRole("listitem").filter({ has: page.getByRole("link", { name, exact: true }) });
    await row("web/default").getByText("2 ready: no wait").waitFor();
    await row("broken/default").getByText("None ready: creates fail").waitFor();
    await row("slow/default").getByText(/none ready/).waitFor();
    await accessible(page, "mine-empty");

    // One that is real, and that one enters with what the page says.
    await row("quickstart/default").getByText(/ready: no wait/).waitFor();
    await pools.getByRole("button", { name: "Claim quickstart/default" }).click();
    const held = page.getByRole("list", { name: "Workspaces that you have" });
    const command = (await held.getByText(/^prewarm exec prebuild-/).textContent()) ?? "";
    expect(cli(`${command.replace(/ sh$/, "")} echo hello from it`, token)).toContain("hello from it");

    await held.getByRole("button", { name: "Renew" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("From now on for").selectOption("4h");
    await dialog.getByRole("button", { name: "Renew" }).click();
    await held.getByText(/^3 h 59 min left \(until .+\)\.$/).waitFor();

    // A wait has a place in line, outlives a look at another page, and leaves nothing when it is cancelled.
    await pools.getByRole("button", { name: "Claim slow/default" }).click();
    const waits = page.getByRole("list", { name: "Claims that wait" });
    await waits.getByText("slow/default", { exact: true }).waitFor();
    await waits.getByText("next in line", { exact: false }).waitFor();
    await accessible(page, "mine-waiting");
    await places.getByRole("link", { name: "Templates" }).click();
    await places.getByRole("link", { name: "My workspaces" }).click();
    await waits.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("The claim is cancelled.").waitFor();
    await waits.waitFor({ state: "detached" });
    await until("nobody waits", async () => {
      const { claims } = (await server.api("GET", "/api/v1/claims?state=waiting")) as { claims: unknown[] };
      return claims.length === 0;
    });

    // What cannot be served says so at once.
    await pools.getByRole("button", { name: "Claim broken/default" }).click();
    await page.getByText("No workspace of broken/default", { exact: false }).waitFor();

    await held.getByRole("button", { name: "Release" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Release" }).click();
    await page.getByText("You have no workspace").waitFor();
  });
});

test("an owner has the page too, and is not led there", async () => {
  await browsing(browser, "member-owner", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.getByRole("link", { name: "My workspaces" }).click();
    await page.getByRole("list", { name: "Pools that you can claim from" }).waitFor();
  });
});
