import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accessible } from "./axe";
import { browsing, live, signIn, startBrowser } from "./browser";
import { startServer, until, type Server } from "./server";

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--tick", "1s"), startBrowser()]);
  await server.api("POST", "/api/v1/apply", {
    file: "lost.yaml",
    document: `
templates:
  - name: web
    provider: sim
    spec: {create_latency: 10ms, ready_latency: 10ms}
    presets: [{name: default, prebuilds: {instances: 3}}]
`,
  });
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

test("a killed server is a banner on every page, over dimmed data, until it is back and what is shown is current", async () => {
  await browsing(browser, "lost", async (context, problems) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.getByRole("img", { name: "3 ready", exact: true }).first().waitFor();
    await page.getByRole("link", { name: "Claims" }).click();
    await page.getByRole("heading", { level: 1, name: "Claims" }).waitFor();
    await page.getByRole("link", { name: "Pools", exact: true }).first().click();
    await live(page);
    const banner = page.getByRole("region", { name: "Lost server" });
    expect(await banner.count()).toBe(0);

    await server.kill();
    await banner.getByText("The server does not answer.").waitFor();
    await banner.getByText(/What you see is [\d.]+ (s|min).* old\. (Next try in \d+ s\.|Trying now\.)/).waitFor();
    const main = page.getByRole("main");
    const look = () => main.evaluate((el) => [getComputedStyle(el).opacity, getComputedStyle(el).filter]);
    expect(await look()).toEqual(["0.85", "grayscale(1)"]);
    await page.getByRole("img", { name: "3 ready", exact: true }).first().waitFor(); // what was known stays
    const age = async () => Number(/is (\d+)/.exec((await banner.textContent()) ?? "")?.[1] ?? 0);
    const before = await age();
    await until("the data grows older", async () => (await age()) > before);
    // A page that was read before, and what stands at the top when one scrolls.
    await page.getByRole("link", { name: "Claims" }).click();
    await banner.waitFor();
    await accessible(page, "lost-claims");
    await page.getByRole("link", { name: "Pools", exact: true }).first().click();
    await page.getByRole("link", { name: "web/default" }).waitFor();
    await accessible(page, "lost-pools", [1440, 390, 320]);
    await page.setViewportSize({ width: 390, height: 400 });
    await page.evaluate(() => scrollTo(0, 400));
    const top = await banner.boundingBox();
    expect(top?.y).toBe(0);
    const menu = await page.getByRole("button", { name: "Menu" }).boundingBox();
    expect(menu?.y, "the page's own bar is below the banner").toBeGreaterThanOrEqual(top?.height ?? 999);
    await page.evaluate(() => scrollTo(0, 0));
    await page.setViewportSize({ width: 1440, height: 900 });

    // A page whose file is not here comes when the server is back.
    await page.getByRole("link", { name: "Templates" }).click();
    const tried = page.waitForRequest((r) => r.url().endsWith("/api/v1/whoami"));
    await banner.getByRole("button", { name: "Try now" }).click();
    await tried;
    await banner.waitFor();
    await server.restart(); // from here on it finds the server by itself
    await banner.waitFor({ state: "detached" });
    await live(page);
    expect(await look()).toEqual(["1", "none"]);
    await page.getByRole("heading", { level: 1, name: "Templates" }).waitFor();
    await page.getByRole("link", { name: "Pools", exact: true }).first().click();
    await server.api("POST", "/api/v1/claims", { template: "web", preset: "default", wait: "60s" });
    await page.getByRole("img", { name: /1 claimed/ }).first().waitFor();
    problems.splice(0, problems.length, ...problems.filter((p) => !/net::ERR_|WebSocket connection|Failed to fetch dynamically/.test(p)));
  });
});
