import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accessible } from "./axe";
import { browsing, patience, signIn, startBrowser } from "./browser";
import { repository, startServer, until, type Server } from "./server";

// Lists as an operator works with them: narrowed by parts of words, several at once, with what they cost.

const fast = "spec: {create_latency: 5ms, ready_latency: 5ms}";
const configuration = `
providers:
  - {name: cloud, kind: sim}
templates:
  - name: agents
    provider: cloud
    idle_cost_per_hour: 0.5
    ${fast}
    presets:
      - {name: small, prebuilds: {instances: 3}}
      - {name: large, prebuilds: {instances: 2}}
  - name: many
    provider: cloud
    ${fast}
    presets: [${Array.from({ length: 44 }, (_, n) => `{name: p${String(n).padStart(2, "0")}, parameters: {n: "${n}"}, prebuilds: {instances: 1}}`).join(", ")}]
`;

let server: Server;
let browser: Browser;

const ready = async (preset: string) =>
  ((await server.api("GET", `/api/v1/presets/agents/${preset}`)) as { actual: number; starting: number }).actual;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--tick", "1s"), startBrowser()]);
  await server.api("POST", "/api/v1/apply", { document: configuration, file: "lists.yaml" });
  await until("the pools are warm", async () => (await ready("small")) === 3 && (await ready("large")) === 2);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** prewarm runs the command line against the server, and returns what it says as JSON. */
async function prewarm(...args: string[]): Promise<unknown> {
  const { stdout } = await promisify(execFile)(join(repository, "bin/prewarm"), [...args, "-o", "json"], {
    env: { PREWARM_URL: server.url, PREWARM_TOKEN: server.token, HOME: server.directory },
  });
  return JSON.parse(stdout);
}

test("a claim by count is one row that says how it stands, and opens to its claims", async () => {
  await browsing(browser, "groups", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    // Paused, so that what is missing stays missing.
    await server.api("POST", "/api/v1/pauses", { scope: "preset", target: "agents/small", reason: "counting", expires_in: "1h" });
    const gone = new AbortController();
    const nine = fetch(`${server.url}/api/v1/claims`, {
      method: "POST",
      signal: gone.signal,
      headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ template: "agents", preset: "small", count: 9, wait: "2m" }),
    });
    nine.catch(() => undefined); // given up below
    await page.goto(`${server.url}/claims?state=waiting`);
    const waiting = page.getByRole("table", { name: "Waiting claims, the longest first" });
    const group = waiting.getByRole("button", { name: "3 of 9 ready" });
    await group.waitFor();
    expect(await waiting.getByRole("row").count(), "a head and one row").toBe(2);
    await group.click();
    await expect.poll(() => waiting.getByRole("row").count(), { timeout: patience }).toBe(11);
    await accessible(page, "group");
    await page.goto(`${server.url}/mine`);
    await page.getByText("agents/small, for").or(page.getByText(/3 of 9 ready/)).first().waitFor();
    gone.abort();
    await server.api("DELETE", "/api/v1/pauses?scope=preset&target=agents/small");

    await page.goto(`${server.url}/claims`);
    await until("no claim waits", async () => ((await server.api("GET", "/api/v1/claims?state=waiting")) as { claims: [] }).claims.length === 0);
    const three = (await server.api("POST", "/api/v1/claims", { template: "agents", preset: "small", count: 3, wait: "1m" })) as {
      workspaces: { name: string }[];
    };
    const first = three.workspaces[0]?.name ?? "";
    const held = page.getByRole("table", { name: "Claims in use" });
    await held.getByRole("button", { name: "3 workspaces, all in use" }).click();
    await held.getByRole("link", { name: first }).waitFor();
    const row = held.getByRole("row").filter({ hasText: first });
    await row.getByRole("button", { name: "Release" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Release" }).click();
    await held.getByRole("button", { name: "2 of 3 in use" }).waitFor();
    await row.getByText("released").waitFor();
  });
});

test("a filter finds parts of words, stays in the address, and the command line finds the same", async () => {
  await browsing(browser, "parts", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    const got = (await server.api("POST", "/api/v1/claims", { template: "agents", preset: "large", wait: "1m" })) as { name: string };
    await page.goto(`${server.url}/claims`);
    const held = page.getByRole("table", { name: "Claims in use" });
    await held.getByRole("link", { name: got.name }).waitFor();
    await page.getByLabel("Filter").fill("GENTS/LA wne");
    await held.getByRole("button", { name: /in use/ }).waitFor({ state: "detached" });
    await held.getByRole("link", { name: got.name }).waitFor();
    await expect.poll(() => page.url(), { timeout: patience }).toContain("q=GENTS");
    await page.reload();
    await held.getByRole("link", { name: got.name }).waitFor();
    expect(await page.getByLabel("Filter").inputValue()).toBe("GENTS/LA wne");
    expect(await held.getByRole("row").count()).toBe(2);
    const cli = (await prewarm("workspace", "list", "--state", "claimed", "--filter", "GENTS/LA wne")) as { name: string }[];
    expect(cli.map((w) => w.name)).toEqual([got.name]);
    expect(((await prewarm("preset", "list", "--filter", "ANY/p0")) as unknown[]).length).toBe(10);

    await page.goto(`${server.url}/audit`);
    const log = page.getByRole("table", { name: "Audit log" });
    await log.getByText("workspace.claim").first().waitFor();
    await page.getByLabel("Filter").fill("ACE.cla wne");
    await expect.poll(() => page.url(), { timeout: patience }).toContain("q=ACE.cla");
    const rows = log.getByRole("row").filter({ has: page.getByRole("cell") });
    await expect
      .poll(async () => [await rows.filter({ hasNotText: "workspace.claim" }).count(), (await rows.count()) > 0], { timeout: patience })
      .toEqual([0, true]);
    const entries = (await prewarm("audit", "list", "--filter", "ACE.cla wne")) as { action: string }[];
    expect(new Set(entries.map((e) => e.action))).toEqual(new Set(["workspace.claim"]));
  });
});

test("pools are replaced together once it is confirmed, and each says what happened", async () => {
  await browsing(browser, "replace", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await until("the pools are warm again", async () => (await ready("small")) === 3 && (await ready("large")) === 2);
    const names = async () =>
      ((await server.api("GET", "/api/v1/workspaces?template=agents&state=ready")) as { workspaces: { name: string }[] }).workspaces.map((w) => w.name);
    const before = await names();
    await page.goto(`${server.url}/?q=agents`);
    const pools = page.getByRole("list", { name: "Pools", exact: true });
    await pools.getByText(/a day/).first().waitFor(); // idle has a price
    await pools.getByText(/a claim/).first().waitFor();
    await page.getByLabel("Select all shown").check();
    await page.getByRole("region", { name: "Selected pools" }).getByRole("button", { name: "Replace" }).click();
    const dialog = page.getByRole("dialog", { name: "Replace all prebuilds of 2 pools?" });
    expect(await dialog.getByRole("list", { name: "Pools to replace" }).getByRole("listitem").allTextContents()).toEqual(["agents/large", "agents/small"]);
    expect(await names(), "nothing happens before").toEqual(before);
    await accessible(page, "replace");
    await dialog.getByRole("button", { name: "Replace" }).click();
    const happened = page.getByRole("region", { name: "What happened" });
    await happened.getByRole("heading", { name: "2 pools being replaced." }).waitFor();
    await happened.getByText("agents/small being replaced").waitFor();
    await happened.getByText("agents/large being replaced").waitFor();
    await until("all prebuilds are others", async () => (await names()).length >= 5 && (await names()).every((n) => !before.includes(n)));
    await happened.getByRole("button", { name: "Dismiss" }).click();
    await happened.waitFor({ state: "detached" });
  });
});

test("a pause of every scope is made on the page with a reason, and ended there", async () => {
  await browsing(browser, "scopes", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    for (const { scope, choice, target } of [
      { scope: "provider", choice: "A provider", target: "cloud" },
      { scope: "template", choice: "A template", target: "many" },
      { scope: "preset", choice: "A preset", target: "agents/large" },
    ]) {
      await page.getByRole("button", { name: "Pause…" }).click();
      const dialog = page.getByRole("dialog", { name: "Pause pools" });
      await dialog.getByLabel("What to pause").selectOption(choice);
      await dialog.getByLabel(`Which ${scope}`).selectOption(target);
      await dialog.getByRole("button", { name: "Pause", exact: true }).click();
      expect(await server.api("GET", "/api/v1/pauses"), "a pause needs a reason").toEqual([]);
      await dialog.getByLabel("Reason").fill(`moving ${scope}`);
      await dialog.getByRole("button", { name: "Pause", exact: true }).click();
      const line = page.getByRole("region", { name: "Pauses" }).getByRole("listitem").filter({ hasText: `moving ${scope}` });
      await line.waitFor();
      expect(await server.api("GET", "/api/v1/pauses")).toMatchObject([{ scope, target, reason: `moving ${scope}` }]);
      await line.getByRole("button", { name: "Resume" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
      await line.waitFor({ state: "detached" });
    }
  });
});

test("a wide screen is used, and forty dense pools are on it", async () => {
  await browsing(browser, "wide", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    for (const width of [1920, 2560]) {
      await page.setViewportSize({ width, height: 1080 });
      for (const path of ["/", "/presets/agents/small", "/claims", "/templates", "/providers", "/audit", "/mine"]) {
        await page.goto(server.url + path);
        await page.getByRole("heading", { level: 1 }).waitFor();
        // What is left empty beside the page, of the width that the navigation leaves it.
        const share = await page.evaluate(() => {
          const main = document.querySelector("main")?.getBoundingClientRect();
          const shown = document.querySelector("main > div")?.getBoundingClientRect();
          return main && shown ? shown.width / main.width : 0;
        });
        expect(share, `${path} at ${width} px`).toBeGreaterThan(0.95);
      }
    }
    await page.setViewportSize({ width: 1920, height: 1080 });
    await page.goto(`${server.url}/?dense=true`);
    const pools = page.getByRole("list", { name: "Pools", exact: true });
    await pools.getByRole("listitem").first().waitFor();
    await pools.evaluate((list) => scrollTo(0, list.getBoundingClientRect().top + scrollY));
    const whole = () =>
      pools.getByRole("listitem").evaluateAll(
        (rows) => rows.filter((r) => r.getBoundingClientRect().top >= 0 && r.getBoundingClientRect().bottom <= innerHeight).length,
      );
    await expect.poll(whole, { timeout: patience }).toBeGreaterThanOrEqual(40);
  });
});
