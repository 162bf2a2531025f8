import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browsing, live, patience, signIn, startBrowser } from "./browser";
import { fillForges, startServer, type Server } from "./server";

const configuration = `
providers:
  - {name: cloud, kind: sim}
templates:
  - name: ci
    provider: cloud
    spec: {create_latency: 10ms, ready_latency: 10ms}
    presets: [{name: linux-x64, prebuilds: {instances: 6}}]
`;

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--tick", "1s"), startBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** A server tells a story in its order: from no forge to many jobs. */
test("who has no forge is told what to do, and sees the first as it comes", async () => {
  await browsing(browser, "jobs", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/jobs`);
    await page.getByText("No forge is connected yet").waitFor();
    await page.getByText("prewarm forge webhook install").waitFor();
    await live(page);

    await server.api("POST", "/api/v1/apply", { document: configuration, file: "e2e.yaml" });
    const runner = await fillForges(server, "ci/linux-x64", 6);
    // Nothing was asked for: the stream said that there are forges and jobs now.
    const unserved = page.getByRole("table", { name: "Jobs that nothing can serve" });
    await unserved.getByText("no runner preset has the labels", { exact: false }).first().waitFor();
    await expect.poll(() => unserved.getByRole("row").count(), { timeout: patience }).toBe(4);
    const queued = page.getByRole("table", { name: "Queued jobs" });
    await queued.getByRole("link", { name: "ci/linux-x64" }).first().waitFor();
    expect(await queued.getByText("macos-15").count(), "an unserved one is in one list only").toBe(0);

    const parts = page.getByRole("navigation", { name: "Jobs, runners and forges" });
    await parts.getByRole("link", { name: "In progress" }).click();
    const running = page.getByRole("table", { name: "Jobs in progress" });
    await running.getByRole("link", { name: runner }).waitFor();
    await running.getByRole("link", { name: runner }).click();
    const card = page.getByRole("region", { name: "Runner" });
    await card.getByText("at a job").waitFor();
    expect(await card.getByRole("link", { name: /build|tests|lint/ }).getAttribute("href")).toMatch(/^https:\/\/github\.example\.com\/acme\//);
    await card.getByText(/^acme\//).waitFor();
  });
});

test("jobs are narrowed by the address, and come page by page", async () => {
  await browsing(browser, "jobs-ended", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/jobs?show=completed`);
    const table = page.getByRole("table", { name: "Completed jobs" });
    await table.getByText("failure").first().waitFor();
    await page.getByRole("status").filter({ hasText: "100 jobs, and there are more" }).waitFor();
    await page.getByRole("button", { name: "Show more" }).click();
    await page.getByRole("status").filter({ hasText: /^130 jobs$/ }).waitFor();
    await page.getByLabel("Filter").fill("CME/ no-such-job");
    await page.getByText("No job matches").waitFor();
    await page.getByLabel("Filter").fill("CME/ lin"); // a part of the repository, and of a label
    await table.getByText("acme/").first().waitFor();
    expect(page.url()).toContain("q=CME");
    await page.getByLabel(/^Forge/).selectOption("legacy");
    await page.getByText("No job matches").waitFor();
    expect(page.url()).toContain("forge=legacy");
    expect(page.url()).toContain("show=completed");
  });
});

test("a preset of runners says what waits for it, and leads to its jobs and runners", async () => {
  await browsing(browser, "jobs-preset", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/presets/ci/linux-x64`);
    const card = page.getByRole("region", { name: "Runners" });
    await card.getByText("self-hosted").waitFor();
    await card.getByText("Jobs that wait").waitFor();
    await card.getByRole("img", { name: /of at most 40$/ }).waitFor();
    expect(await page.getByRole("button", { name: "Claim one" }).count(), "jobs claim runners, people do not").toBe(0);
    await card.getByRole("link", { name: "Its jobs" }).click();
    await page.getByRole("table", { name: "Queued jobs" }).waitFor();
    expect(page.url()).toContain("preset=linux-x64");
    await page.getByRole("navigation", { name: "Jobs, runners and forges" }).getByRole("link", { name: "Runners" }).click();
    const runners = page.getByRole("table", { name: "Runners" });
    await runners.getByText("at a job").first().waitFor();
    await page.getByLabel("At the forge").selectOption("offline");
    await page.getByText("No runner matches").waitFor();
  });
});

test("a forge says how it goes with it, and is stopped and started with a reason", async () => {
  await browsing(browser, "jobs-forges", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/jobs?show=forges`);
    const forges = page.getByRole("list", { name: "Forges" });
    const card = (name: string) => forges.getByRole("listitem").filter({ has: page.getByRole("heading", { name }) });
    await card("acme").getByRole("link", { name: "ci/linux-x64" }).waitFor();
    await card("acme").getByRole("img", { name: /of 5000 requests left/ }).waitFor();
    await card("legacy").getByText("moved to acme").waitFor();
    await card("legacy").getByText("stopped", { exact: true }).waitFor();
    await card("partner").getByText("502 Bad Gateway", { exact: false }).waitFor();
    await card("partner").getByText("prewarm forge webhook install partner").waitFor();

    await card("legacy").getByRole("button", { name: "Start" }).click();
    await page.getByRole("dialog", { name: "Start legacy?" }).getByRole("button", { name: "Start" }).click();
    await card("legacy").getByRole("button", { name: "Stop" }).click();
    const dialog = page.getByRole("dialog", { name: "Stop legacy?" });
    await dialog.getByText("Jobs that run go on", { exact: false }).waitFor();
    await dialog.getByLabel("Reason").fill("its disk is full");
    await dialog.getByRole("button", { name: "Stop" }).click();
    await card("legacy").getByText("its disk is full").waitFor();
  });
});
