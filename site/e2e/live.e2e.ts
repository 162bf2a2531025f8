import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browsing, live, patience, signIn, startBrowser } from "./browser";
import { startServer, until, type Server } from "./server";

const configuration = `
templates:
  - name: web
    provider: sim
    spec: {create_latency: 10ms, ready_latency: 10ms}
    presets: [{name: default, prebuilds: {instances: 12}}]
`;

/** So often it is seen, and how long that took is said. */
const tries = 10;

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--tick", "1s"), startBrowser()]);
  await server.api("POST", "/api/v1/apply", { document: configuration, file: "live.yaml" });
  await until("12 are ready", async () => {
    const { pools } = (await server.api("GET", "/api/v1/pools")) as { pools: { slots: { ready: number } }[] };
    return pools[0]?.slots.ready === 12;
  });
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

test("a claim made in one tab comes to another by the stream alone", async () => {
  await browsing(browser, "live", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);

    const second = await context.newPage();
    const heard: string[] = [];
    second.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => heard.push(String(payload))));
    await second.goto(server.url);
    await second.getByRole("link", { name: "web/default" }).first().waitFor();
    await live(second);
    // From here on nothing that this tab reads by the clock is answered: it knows what it is told to read.
    const asked: string[] = [];
    await second.route("**/api/v1/**", async (route) => {
      const url = new URL(route.request().url());
      if (!url.searchParams.has("ids")) return; // for ever under way
      asked.push(url.search);
      await route.continue();
    });

    const took: number[] = [];
    for (let n = 1; n <= tries; n++) {
      await page.goto(`${server.url}/presets/web/default`);
      const button = page.getByRole("button", { name: "Claim one" });
      await button.waitFor();
      const [hints, reads] = [heard.length, asked.length];
      const seen = shows(second, new RegExp(`\\b${n} claimed`));
      const clicked = clicks(page);
      await button.click();
      took.push((await seen) - (await clicked));
      // A read that was under way at the click may be what showed the claim: the hint of it and the read that it asks for follow.
      const wait = { timeout: patience, interval: 20 };
      await expect.poll(() => asked.length, { ...wait, message: `reads that a hint asked for, at claim ${n}` }).toBeGreaterThan(reads);
      await expect
        .poll(() => heard.slice(hints).join("\n"), { ...wait, message: `what the stream said at claim ${n}` })
        .toContain('"topic":"preset"');
      await page.getByRole("heading", { level: 1, name: /^prebuild-/ }).waitFor();
    }
    took.sort((a, b) => a - b);
    const middle = ((took[tries / 2 - 1] ?? NaN) + (took[tries / 2] ?? NaN)) / 2;
    console.info(
      `a claim is in the second tab after ${Math.round(middle)} ms (median of ${tries}; ` +
        `${Math.round(took[0] ?? NaN)} to ${Math.round(took.at(-1) ?? NaN)} ms), counted from the click`,
    );
  });
});

/** clicks is when something on the page is clicked next, in milliseconds of the clock that all pages share. */
function clicks(page: Page): Promise<number> {
  return page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        addEventListener("click", (e) => resolve(performance.timeOrigin + e.timeStamp), { capture: true, once: true });
      }),
  );
}

/** shows is when a pool's slots say so first, on that clock. */
function shows(page: Page, words: RegExp): Promise<number> {
  return page.evaluate(
    ([source, most]) =>
      new Promise<number>((resolve, reject) => {
        const wanted = new RegExp(source);
        const look = () => {
          for (const strip of document.querySelectorAll("svg[role=img]")) {
            if (!wanted.test(strip.getAttribute("aria-label") ?? "")) continue;
            resolve(performance.timeOrigin + performance.now());
            observer.disconnect();
            return;
          }
        };
        const observer = new MutationObserver(look);
        observer.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
        setTimeout(() => reject(new Error(`it never said ${source}`)), most);
        look();
      }),
    [words.source, patience] as const,
  );
}
