import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browsing, live, patience, signIn, startBrowser } from "./browser";
import { startBalancer, startReplica, startServer, type Balancer, type Server } from "./server";

/** So many tabs look on. */
const tabs = 6;

let survivor: Server;
let victim: Server;
let balancer: Balancer;
let browser: Browser;

beforeAll(async () => {
  [survivor, browser] = await Promise.all([startServer("--tick", "1s", "--replica", "survivor"), startBrowser()]);
  victim = await startReplica(survivor, "--tick", "1s", "--replica", "victim");
  balancer = await startBalancer(victim, survivor);
  // Both replicas have the same cloud, whose files are the one's.
  await survivor.api("POST", "/api/v1/apply", {
    file: "replicas.yaml",
    document: `
providers:
  - {name: cloud, kind: sim, config: {root: ${survivor.directory}/cloud}}
templates:
  - name: web
    provider: cloud
    spec: {create_latency: 10ms, ready_latency: 10ms}
    presets: [{name: default, prebuilds: {instances: 4}}]
`,
  });
});
afterAll(async () => {
  await browser?.close();
  await balancer?.stop();
  await victim?.stop();
  await survivor?.stop();
});

/** Connection is one WebSocket of a tab: when it was asked for, told something first, and ended, in milliseconds. */
interface Connection {
  asked: number;
  heard: number;
  ended: number;
}

type Watched = Window & { connections: Connection[]; same: boolean };

test("a replica is killed while pages are open, and they go on with another one", async () => {
  await browsing(browser, "replica-killed", async (context, problems) => {
    await context.addInitScript(() => {
      const watched = window as unknown as Watched;
      watched.connections = [];
      window.WebSocket = class extends WebSocket {
        constructor(url: string | URL) {
          const connection = { asked: performance.now(), heard: 0, ended: 0 };
          watched.connections.push(connection);
          super(url);
          this.addEventListener("message", () => (connection.heard ||= performance.now()));
          this.addEventListener("close", () => (connection.ended = performance.now()));
        }
      };
    });
    const first = await context.newPage();
    await signIn(first, { ...victim, url: balancer.url });
    const pages: Page[] = [];
    for (let n = 0; n < tabs; n++) {
      const page = await context.newPage();
      await page.goto(`${balancer.url}/?q=web`);
      await page.getByRole("img", { name: "4 ready", exact: true }).first().waitFor();
      await live(page);
      await page.evaluate(() => ((window as unknown as Watched).same = true));
      pages.push(page);
    }

    await victim.kill();
    const after = await Promise.all(pages.map((page) => reconnected(page)));

    // Nobody loaded a page again: each has its filter still, and says that it is live.
    for (const page of pages) {
      await live(page);
      expect(await page.evaluate(() => (window as unknown as Watched).same)).toBe(true);
      expect(await page.getByRole("searchbox").inputValue()).toBe("web");
    }
    // What happens now comes to all of them, and whoever is signed in can go on working.
    await survivor.api("POST", "/api/v1/claims", { template: "web", preset: "default", wait: "60s" });
    for (const page of pages) await page.getByRole("img", { name: /1 claimed/ }).first().waitFor();
    const [worker] = pages;
    await worker?.getByRole("link", { name: "web/default" }).first().click();
    await worker?.getByRole("button", { name: "Claim one" }).click();
    await worker?.getByRole("heading", { level: 1, name: /^prebuild-/ }).waitFor();
    for (const page of pages.slice(1)) await page.getByRole("img", { name: /2 claimed/ }).first().waitFor();

    // They did not all come back at once.
    const waits = after.map((c) => c.wait).sort((a, b) => a - b);
    console.info(
      `${tabs} tabs asked another replica ${waits.map((w) => Math.round(w)).join(", ")} ms after the first was killed, ` +
        `and were live after ${Math.round(Math.max(...after.map((c) => c.live)))} ms at most`,
    );
    expect((waits.at(-1) ?? 0) - (waits[0] ?? 0)).toBeGreaterThan(20);

    // That nobody answered for a moment is what browsers report as errors.
    problems.splice(0, problems.length, ...problems.filter((p) => !/net::ERR_|WebSocket connection/.test(p)));
  });
});

/** reconnected waits for a connection after the first to be told something. Times count from the end of the first. */
function reconnected(page: Page): Promise<{ wait: number; live: number }> {
  return page.evaluate(
    (most) =>
      new Promise<{ wait: number; live: number }>((resolve, reject) => {
        const began = performance.now();
        const look = () => {
          const [lost, ...others] = (window as unknown as Watched).connections.filter((c) => c.heard > 0);
          const next = others.at(-1);
          if (lost && lost.ended > 0 && next) {
            const again = (window as unknown as Watched).connections.find((c) => c.asked >= lost.ended);
            resolve({ wait: (again ?? next).asked - lost.ended, live: next.heard - lost.ended });
          } else if (performance.now() - began > most) {
            reject(new Error("the page did not come back"));
          } else {
            setTimeout(look, 20);
          }
        };
        look();
      }),
    patience,
  );
}
