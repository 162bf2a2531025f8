import { QueryClient } from "@tanstack/react-query";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeRouter } from "../src/router";
import { accessible } from "./axe";
import { browsing, live, patience, signIn, startBrowser } from "./browser";
import { fillForges, startServer, type Server } from "./server";

const configuration = `
providers:
  - {name: cloud, kind: sim}
templates:
  - name: web-ide
    description: The front end, in a browser
    provider: cloud
    spec: {create_latency: 10ms, ready_latency: 10ms}
    presets:
      - {name: large, parameters: {size: l}, prebuilds: {instances: 8}}
      - name: office-hours
        prebuilds: {instances: 2, schedule: {timezone: Europe/Berlin, ranges: [{cron: "* 8-18 * * *", instances: 9}]}}
  - name: ci
    provider: cloud
    spec: {create_latency: 10ms, ready_latency: 10ms}
    presets: [{name: linux-x64, prebuilds: {instances: 4}}]
  - name: slow
    provider: cloud
    spec: {create_latency: 10ms, ready_latency: 1h}
    presets: [{name: default, prebuilds: {instances: 5}}]
  - name: broken
    provider: cloud
    keep_failures: {maximum: 1}
    spec: {create_latency: 10ms, fail_permanent: 1}
    presets: [{name: default, prebuilds: {instances: 3}}]
`;

let server: Server;
let browser: Browser;
let claimed: string;
let runner: string;
let session: Awaited<ReturnType<BrowserContext["storageState"]>>;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--tick", "1s", "--quickstart"), startBrowser()]);
  await server.api("POST", "/api/v1/apply", { document: configuration, file: "e2e.yaml" });
  const claim = (await server.api("POST", "/api/v1/claims", {
    template: "quickstart",
    preset: "default",
    wait: "90s",
  })) as { name: string };
  claimed = claim.name;
  runner = await fillForges(server, "ci/linux-x64", 4);
  await browsing(browser, "session", async (context) => {
    await signIn(await context.newPage(), server);
    session = await context.storageState();
  });
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** Each page, and what is on it once it is there. */
const pages: readonly { name: string; path: () => string; there: (page: Page) => Promise<unknown> }[] = [
  { name: "pools", path: () => "/", there: (p) => p.getByRole("link", { name: "web-ide/large" }).waitFor() },
  { name: "no-pool", path: () => "/?q=nothing", there: (p) => p.getByText("No pool matches").waitFor() },
  {
    name: "preset",
    path: () => "/presets/web-ide/large",
    there: (p) => p.getByRole("figure", { name: "Ready", exact: true }).waitFor(),
  },
  {
    name: "preset-14d",
    path: () => "/presets/web-ide/large?range=14d",
    there: (p) => p.getByRole("figure", { name: "Claims in 14 d" }).waitFor(),
  },
  {
    name: "schedule",
    path: () => "/presets/web-ide/office-hours",
    there: (p) => p.getByRole("region", { name: "Schedule" }).waitFor(),
  },
  {
    name: "broken",
    path: () => "/presets/broken/default",
    there: (p) => p.getByRole("region", { name: "Failures by cause" }).getByText("simulated permanent failure").first().waitFor(),
  },
  { name: "no-preset", path: () => "/presets/no/such", there: (p) => p.getByRole("alert").waitFor() },
  {
    name: "workspace",
    path: () => `/workspaces/${claimed}`,
    there: (p) => p.getByRole("region", { name: "Timeline" }).waitFor(),
  },
  {
    name: "port",
    path: () => `/workspaces/${claimed}/ports/3000`,
    there: (p) => p.getByRole("button", { name: "Open port 3000" }).waitFor(),
  },
  { name: "welcome", path: () => "/welcome", there: (p) => p.getByRole("button", { name: "Claim one" }).waitFor() },
  {
    name: "mine",
    path: () => "/mine",
    there: (p) => p.getByRole("list", { name: "Pools that you can claim from" }).waitFor(),
  },
  { name: "claims", path: () => "/claims", there: (p) => p.getByRole("table").waitFor() },
  { name: "jobs", path: () => "/jobs", there: (p) => p.getByRole("table", { name: "Jobs that nothing can serve" }).waitFor() },
  { name: "jobs-running", path: () => "/jobs?show=in_progress", there: (p) => p.getByRole("table", { name: "Jobs in progress" }).waitFor() },
  { name: "jobs-ended", path: () => "/jobs?show=completed", there: (p) => p.getByRole("table", { name: "Completed jobs" }).waitFor() },
  { name: "no-job", path: () => "/jobs?forge=acme&preset=nothing", there: (p) => p.getByText("No job matches").waitFor() },
  { name: "runners", path: () => "/jobs?show=runners", there: (p) => p.getByRole("table", { name: "Runners" }).waitFor() },
  { name: "forges", path: () => "/jobs?show=forges", there: (p) => p.getByRole("list", { name: "Forges" }).waitFor() },
  {
    name: "preset-of-runners",
    path: () => "/presets/ci/linux-x64",
    there: (p) => p.getByRole("region", { name: "Runners" }).getByText("self-hosted").waitFor(),
  },
  { name: "runner", path: () => `/workspaces/${runner}`, there: (p) => p.getByRole("region", { name: "Runner" }).waitFor() },
  { name: "templates", path: () => "/templates", there: (p) => p.getByRole("table").waitFor() },
  {
    name: "template",
    path: () => "/templates/web-ide",
    there: (p) => p.getByRole("region", { name: "Rollout" }).waitFor(),
  },
  { name: "no-template", path: () => "/templates/nothing", there: (p) => p.getByRole("alert").first().waitFor() },
  { name: "apply", path: () => "/apply", there: (p) => p.getByRole("textbox").waitFor() },
  { name: "no-claim", path: () => "/claims?state=waiting", there: (p) => p.getByText("Nobody waits").waitFor() },
  {
    name: "providers",
    path: () => "/providers",
    there: (p) => p.getByRole("list", { name: "Providers" }).getByRole("link", { name: "cloud" }).waitFor(),
  },
  {
    name: "provider",
    path: () => "/providers/cloud",
    there: (p) => p.getByRole("list", { name: "Verdicts" }).waitFor(),
  },
  { name: "replicas", path: () => "/replicas", there: (p) => p.getByRole("table").waitFor() },
  { name: "audit", path: () => "/audit", there: (p) => p.getByRole("table").waitFor() },
  { name: "tokens", path: () => "/tokens", there: (p) => p.getByRole("list", { name: "Users" }).waitFor() },
  {
    name: "not-found",
    path: () => "/no/such/page",
    there: async (p) => {
      await p.getByRole("heading", { level: 1, name: "Page not found" }).waitFor();
      await p.getByRole("navigation", { name: "Pages" }).waitFor(); // it is inside the frame
    },
  },
  {
    name: "pools-dense",
    path: () => "/?dense=true&group=template&sort=attention",
    there: (p) => p.getByRole("link", { name: "web-ide/large" }).last().waitFor(),
  },
  { name: "sign-in", path: () => "/sign-in", there: (p) => p.getByRole("button", { name: "Sign in" }).waitFor() },
];

for (const { name, path, there } of pages) {
  test(`${name}: accessible, and as wide as the screen`, async () => {
    await browsing(
      browser,
      `page-${name}`,
      async (context, problems) => {
        const page = await context.newPage();
        await page.goto(server.url + path());
        await there(page);
        await accessible(page, name);
        await page.setViewportSize({ width: 320, height: 900 });
        // Charts are drawn again a moment after the screen has another size.
        await expect
          .poll(() => page.evaluate(() => document.documentElement.scrollWidth), { timeout: patience, message: "at 320 px it is as wide as" })
          .toBeLessThanOrEqual(320);
        // What is not there is an answer of 404, which browsers report as an error.
        if (name === "no-preset" || name === "no-template") problems.splice(0, problems.length, ...problems.filter((p) => !p.includes("404")));
      },
      { storageState: session, reducedMotion: "reduce" },
    );
  });
}

test("every route of the router is among these pages", () => {
  const routes = Object.keys(makeRouter(new QueryClient()).routesByPath);
  expect(routes).toEqual(expect.arrayContaining(["/", "/presets/$template/$preset", "/$"]));
  for (const route of routes) {
    const shape = new RegExp(`^${route.replace(/^\/\$$/, "/no/.+").replace(/\$\w+/g, "[^/?]+")}(\\?.*)?$`);
    expect(pages.map((p) => p.path()).filter((path) => shape.test(path)), route).not.toEqual([]);
  }
});

test("what is broken is explained, and a pause is there for all to see", async () => {
  await browsing(browser, "pause", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    const attention = page.getByRole("region", { name: "Needs attention" });
    await attention.getByText("simulated permanent failure").first().waitFor();
    await attention.getByRole("link", { name: "broken/default" }).click();
    await page.getByText("reset").first().waitFor(); // the headline says what would help

    await page.goto(`${server.url}/presets/web-ide/large`);
    await page.getByRole("button", { name: "Pause" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Claims go on").waitFor();
    await dialog.getByLabel("Reason").fill("moving house");
    await dialog.getByRole("button", { name: "Pause" }).click();
    await page.getByText("Paused (preset: moving house)").waitFor();

    const other = await context.newPage();
    await other.goto(`${server.url}/?show=paused`);
    await live(other);
    await other.getByRole("link", { name: "web-ide/large" }).first().waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await page.getByRole("button", { name: "Pause" }).waitFor();
    await other.getByText("No pool matches").waitFor({ timeout: patience });
  });
});

test("a broken pool says its cause before its charts, and a claim that cannot be served says so", async () => {
  await browsing(browser, "blocked", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/presets/broken/default`);
    await page.locator("main header").getByText("Creates fail", { exact: true }).waitFor();
    await page.getByRole("region", { name: "Over time" }).waitFor();
    const regions = await page.locator("main section[aria-label]").evaluateAll((all) => all.map((r) => r.getAttribute("aria-label")));
    expect(regions.indexOf("Failures by cause")).toBeGreaterThanOrEqual(0);
    expect(regions.indexOf("Failures by cause")).toBeLessThan(regions.indexOf("Over time"));
    const asked = page.waitForRequest((r) => r.method() === "POST" && r.url().endsWith("/api/v1/claims"));
    await page.getByRole("button", { name: "Claim one" }).click();
    expect((await asked).postDataJSON()).toMatchObject({ mode: "require" });
    await page.getByText("No workspace can be claimed now: creates fail.").waitFor();
  });
});

test("a global pause is one banner on every page, and is resumed there", async () => {
  await browsing(browser, "global-pause", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.getByRole("button", { name: "Pause…" }).click();
    const dialog = page.getByRole("dialog", { name: "Pause pools" });
    await dialog.getByLabel("Reason").fill("moving house");
    await dialog.getByRole("button", { name: "Pause", exact: true }).click();
    const banner = page.getByRole("region", { name: "Global pause" });
    await banner.getByText("moving house").waitFor();
    const attention = page.getByRole("region", { name: "Needs attention" });
    await attention.getByRole("link", { name: "broken/default" }).waitFor();
    expect(await attention.getByRole("link", { name: "web-ide/large" }).count()).toBe(0);
    await accessible(page, "global-pause");
    await banner.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await banner.waitFor({ state: "detached" });
  });
});

test("the keyboard reaches everything", async () => {
  await browsing(browser, "keyboard", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.getByRole("link", { name: "web-ide/large" }).first().waitFor();
    await page.keyboard.press("Tab");
    await page.getByRole("link", { name: "Skip to the page" }).and(page.locator(":focus")).waitFor();
    await page.getByRole("link", { name: "web-ide/large" }).last().focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "web-ide/large" }).waitFor();
    await page.getByRole("button", { name: "Replace all" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Replace all prebuilds of web-ide/large?" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Replace all" }).and(page.locator(":focus")).waitFor();
  });
});

test("pools are sorted, grouped, and forty of them on a screen; several are paused, resumed and nudged at once", async () => {
  await browsing(browser, "bulk", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.getByLabel("Sort").selectOption("attention");
    const pools = page.getByRole("list", { name: "Pools", exact: true });
    await expect.poll(() => pools.getByRole("link").first().textContent(), { timeout: patience }).toBe("broken/default");
    await page.getByLabel("Group").selectOption("template");
    await pools.getByRole("heading", { name: "web-ide 2" }).waitFor();
    await page.getByLabel("Dense rows").check();
    expect(page.url()).toMatch(/dense=true/);
    const row = await pools.getByRole("listitem").filter({ has: page.getByRole("link", { name: "ci/linux-x64" }) }).boundingBox();
    expect(row?.height, "forty rows are on a screen of 1080 px").toBeLessThanOrEqual(27);

    await pools.getByLabel("Select all of web-ide").check();
    await pools.getByLabel("Select slow/default").check();
    const bar = page.getByRole("region", { name: "Selected pools" });
    await bar.getByText("3 pools selected").waitFor();
    await bar.getByRole("button", { name: "Pause" }).click();
    const dialog = page.getByRole("dialog", { name: "Pause 3 pools?" });
    await dialog.getByLabel("Reason").fill("moving house");
    await dialog.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("region", { name: "What happened" }).getByText("3 pools paused.").waitFor();
    await bar.waitFor({ state: "detached" });
    const pauses = (await server.api("GET", "/api/v1/pauses")) as { target: string }[];
    expect(pauses.map((p) => p.target).sort()).toEqual(["slow/default", "web-ide/large", "web-ide/office-hours"]);
    await page.getByRole("button", { name: "Paused", exact: true }).click();
    await page.getByLabel("Select all shown").check();
    await bar.getByRole("button", { name: "Nudge" }).click();
    await page.getByRole("dialog", { name: "Nudge 3 pools?" }).getByRole("button", { name: "Nudge" }).click();
    await page.getByRole("region", { name: "What happened" }).getByText("3 pools nudged.").waitFor();
    await page.getByLabel("Select all shown").check();
    await bar.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog", { name: "Resume 3 pools?" }).getByRole("button", { name: "Resume" }).click();
    await page.getByText("No pool matches").waitFor();
    expect(await server.api("GET", "/api/v1/pauses")).toEqual([]);
  });
});

test("Ctrl-K finds pools, workspaces, templates and jobs from any page", async () => {
  await browsing(browser, "palette", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/providers`);
    await live(page); // so the page listens to keys, too
    const search = page.getByRole("combobox", { name: /^Search/ });
    const find = async (text: string, first: RegExp) => {
      await search.waitFor({ state: "hidden" }); // the key does nothing while a dialog is open, the last search too
      await page.keyboard.press("Control+k");
      await search.waitFor();
      await page.keyboard.type(text);
      await page.getByRole("option", { selected: true, name: first }).waitFor();
    };
    await find("ide lar", /web-ide\/large/);
    await accessible(page, "palette");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "web-ide/large" }).waitFor();
    await find(claimed, new RegExp(claimed));
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: claimed }).waitFor();
    await find("front end", /web-ide/);
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/templates\/web-ide/);
    await find("acme/", /acme\//);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
    await search.waitFor({ state: "hidden" });
    await page.keyboard.press("Control+k");
    await search.waitFor();
    await page.keyboard.press("Escape");
    await search.waitFor({ state: "hidden" });
  });
});
