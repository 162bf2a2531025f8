import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, test } from "vitest";
import { browsing, live, signIn, startBrowser } from "./browser";
import { configuration, pictures, slow, tell } from "./demo";
import { startReplica, startServer, type Server } from "./server";

// `make screenshots`: the pictures of docs/ui.md, of a server that has something to tell.

let server: Server;
let other: Server;
let browser: Browser;
let claimed: string;
let entered: string;

beforeAll(async () => {
  mkdirSync(pictures, { recursive: true });
  [server, browser] = await Promise.all([startServer("--tick", "1s", "--replica", "eu-1", "--quickstart"), startBrowser()]);
  other = await startReplica(server, "--tick", "1s", "--replica", "eu-2");
  claimed = await tell(server);
  const own = await server.api("POST", "/api/v1/claims", { template: "quickstart", preset: "default", lease: "8h" });
  entered = (own as { name: string }).name;
});
afterAll(async () => {
  await browser?.close();
  await other?.stop();
  await server?.stop();
});

/** Each page, and what is on it once it can be pictured; first those that show the rollout, which comes to its end. */
const pages: readonly { name: string; path: () => string; there: (page: Page) => Promise<unknown>; dark?: true }[] = [
  { name: "pools", path: () => "/", there: (p) => p.getByRole("link", { name: "web-ide/large" }).first().waitFor(), dark: true },
  { name: "rollout", path: () => "/presets/ci-runner/linux-x64", there: why },
  { name: "template", path: () => "/templates/ci-runner", there: (p) => p.getByRole("region", { name: "Rollout" }).waitFor() },
  { name: "preset", path: () => "/presets/web-ide/large", there: why, dark: true },
  { name: "schedule", path: () => "/presets/web-ide/small", there: (p) => p.getByRole("region", { name: "Schedule" }).waitFor() },
  { name: "broken", path: () => "/presets/mobile/android", there: (p) => p.getByRole("region", { name: "Failures by cause" }).waitFor() },
  { name: "paused", path: () => "/presets/data-science/gpu", there: (p) => p.getByText("waiting for the new quota").first().waitFor() },
  { name: "workspace", path: () => `/workspaces/${claimed}`, there: (p) => p.getByRole("log").getByText("sandbox is up").waitFor() },
  { name: "terminal", path: () => `/workspaces/${entered}`, there: type },
  { name: "port", path: () => `/workspaces/${entered}/ports/3000`, there: (p) => p.getByRole("button", { name: "Open port 3000" }).waitFor() },
  { name: "mine", path: () => "/mine", there: (p) => p.getByRole("list", { name: "Pools that you can claim from" }).waitFor() },
  { name: "claims", path: () => "/claims", there: (p) => p.getByText("agent-7").first().waitFor() },
  { name: "jobs", path: () => "/jobs", there: (p) => p.getByRole("table", { name: "Queued jobs" }).waitFor() },
  { name: "runners", path: () => "/jobs?show=runners", there: (p) => p.getByRole("table").first().waitFor() },
  { name: "forges", path: () => "/jobs?show=forges", there: (p) => p.getByText("502 Bad Gateway", { exact: false }).waitFor() },
  { name: "templates", path: () => "/templates", there: (p) => p.getByText("ci-runner").first().waitFor() },
  { name: "apply", path: () => "/apply", there: plan },
  { name: "providers", path: () => "/providers", there: (p) => p.getByText("workstation").first().waitFor() },
  { name: "provider", path: () => "/providers/cloud", there: (p) => p.getByRole("region", { name: "Inventory" }).waitFor() },
  { name: "replicas", path: () => "/replicas", there: (p) => p.getByText("eu-2").first().waitFor() },
  { name: "audit", path: () => "/audit", there: (p) => p.getByText("agent-7").first().waitFor() },
  { name: "tokens", path: () => "/tokens", there: (p) => p.getByText("agent-7").first().waitFor() },
  { name: "welcome", path: () => "/welcome", there: (p) => p.getByRole("button", { name: "Claim one" }).waitFor() },
];

function why(page: Page): Promise<unknown> {
  return page.getByRole("region", { name: "Why this state" }).waitFor();
}

/** type opens a terminal, and looks around in it. */
async function type(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Open a terminal" }).click();
  await page.getByText("connected", { exact: true }).waitFor();
  const shown = (text: string) => page.locator(".xterm-accessibility-tree").getByText(text).first().waitFor();
  for (const [line, answer] of [["ls -l project", "README"], ["cat project/README", "You were expected."]] as const) {
    await page.keyboard.type(`${line}\n`);
    await shown(answer);
  }
}

/** plan shows what a file would do that wants two more web IDEs. */
async function plan(page: Page): Promise<void> {
  const changed = configuration(server.directory, slow).replace("instances: 10,", "instances: 12,");
  await page
    .getByLabel("File to apply")
    .setInputFiles({ name: "prewarm.yaml", mimeType: "application/yaml", buffer: Buffer.from(changed.trimStart()) });
  await page.getByRole("button", { name: "Show what it does" }).click();
  await page.getByRole("region", { name: "What the file changes" }).waitFor();
}

test("pictures of every page", async () => {
  await browsing(
    browser,
    "screenshots",
    async (context) => {
      const page = await context.newPage();
      await page.goto(`${server.url}/sign-in`);
      await page.getByRole("button", { name: "Sign in" }).waitFor();
      await picture(page, "sign-in");
      await signIn(page, server);
      for (const { name, path, there, dark } of pages) {
        await page.goto(server.url + path());
        await there(page);
        await live(page);
        await picture(page, name);
        if (!dark) continue;
        await page.emulateMedia({ colorScheme: "dark" });
        await picture(page, `${name}-dark`);
        await page.emulateMedia({ colorScheme: "light" });
      }
    },
    { colorScheme: "light", reducedMotion: "reduce" },
  );
});

async function picture(page: Page, name: string): Promise<void> {
  // All that the page reads has come, unless it is what goes on, such as output.
  await page.waitForLoadState("networkidle", { timeout: 3_000 }).catch(() => undefined);
  await page.screenshot({ path: join(pictures, `${name}.png`), caret: "hide" });
}
