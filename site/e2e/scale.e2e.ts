import { join } from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browsing, signIn, startBrowser } from "./browser";
import { fillForges, go, startServer, until, type Server } from "./server";

/** How much there is. `make site-scale` has 1,000 presets with 100 workspaces each; what CI asserts holds for few as well. */
const presets = Number(process.env["PREWARM_SCALE_PRESETS"] ?? 100);
const each = Number(process.env["PREWARM_SCALE_EACH"] ?? 20);
/** A page is measured so often, in a browser that knows nothing of it; the median is said. */
const rounds = Number(process.env["PREWARM_SCALE_ROUNDS"] ?? 1);

/** What an answer may weigh, in bytes, and how many rows a page may have, whatever there is. */
const mostBytes = 1_000_000;
const mostRows = 600;

/** Ten presets make a template. */
const templates = Array.from({ length: presets / 10 }, (_, n) => `kind-${String(n).padStart(3, "0")}`);
const configuration = `
providers:
  - {name: sim, kind: sim, inventory_every: 24h}
templates:
${templates
  .map(
    (name) => `
  - name: ${name}
    description: One of many kinds of workspaces
    provider: sim
    spec: {create_latency: 20ms, ready_latency: 1s}
    presets:
${Array.from({ length: 10 }, (_, n) => `      - {name: size-${n}, parameters: {size: "${n}", region: eu-1}, prebuilds: {instances: ${each / 2}}}`).join("\n")}`,
  )
  .join("\n")}
`;

let server: Server;
let browser: Browser;
let session: Awaited<ReturnType<BrowserContext["storageState"]>>;
let claimed: string;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--replica", "scale"), startBrowser()]);
  await server.api("POST", "/api/v1/pauses", { scope: "global", reason: "being filled", expires_in: "30m" });
  await server.api("POST", "/api/v1/apply", { document: configuration, file: "scale.yaml" });
  const address = server.database.replace("//prewarm@/prewarm", "//postgres@/prewarm");
  const cloud = join(server.directory, "data/sim");
  await go("run", "./scripts/benchtest", "-fill", address, "-cloud", cloud, "-workspaces", String(presets * each));
  await server.api("DELETE", "/api/v1/pauses?scope=global");
  await until("passes have seen all pools as they are", async () => {
    const { pools } = (await server.api("GET", "/api/v1/pools?limit=500")) as {
      pools: { desired: number; paused?: string; slots: { ready: number; claimed: number } }[];
    };
    return (
      pools.length === Math.min(500, presets) &&
      pools.every((p) => p.desired === each / 2 && p.slots.ready === p.desired && p.slots.claimed === each / 2 && !p.paused)
    );
  });
  await fillForges(server, "kind-000/size-9", each / 2);
  const { workspaces } = (await server.api("GET", "/api/v1/workspaces?state=claimed&limit=1")) as {
    workspaces: { name: string }[];
  };
  claimed = workspaces[0]?.name ?? "";
  await browsing(browser, "scale-session", async (context) => {
    await signIn(await context.newPage(), server);
    session = await context.storageState();
  });
}, 900_000);
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** What every page is measured by: the first thing on it that is of use to whoever looks, by what it says. */
const pages: readonly { name: string; path: () => string; useful: string }[] = [
  { name: "pools", path: () => "/", useful: "kind-000/size-0" },
  { name: "preset", path: () => "/presets/kind-000/size-3", useful: "Why this state" },
  { name: "workspace", path: () => `/workspaces/${claimed}`, useful: "Timeline" },
  { name: "port", path: () => `/workspaces/${claimed}/ports/3000`, useful: "Open port 3000" },
  { name: "pools-grouped", path: () => "/?group=template&dense=true&sort=claims", useful: "Dense rows" },
  { name: "mine", path: () => "/mine", useful: "kind-000/size-0" },
  { name: "claims", path: () => "/claims", useful: "prebuild-" },
  { name: "jobs", path: () => "/jobs", useful: "self-hosted" },
  { name: "runners", path: () => "/jobs?show=runners", useful: "prebuild-" },
  { name: "templates", path: () => "/templates", useful: "kind-000" },
  { name: "template", path: () => "/templates/kind-000", useful: "Versions" },
  { name: "apply", path: () => "/apply", useful: "The file" },
  { name: "providers", path: () => "/providers", useful: "sim" },
  { name: "provider", path: () => "/providers/sim", useful: "Inventory" },
  { name: "replicas", path: () => "/replicas", useful: "scale" },
  { name: "audit", path: () => "/audit", useful: "owner" },
  { name: "tokens", path: () => "/tokens", useful: "owner" },
];

/** What was seen of each page; said when all were looked at. */
const table: Record<string, Record<string, number>> = {};

afterAll(() => console.table(table));

for (const { name, path, useful } of pages) {
  test(`${name}: asks for no more than it may, and puts no more onto the screen`, async () => {
    const painted: number[] = [];
    for (let round = 0; round < rounds; round++) {
      await browsing(
        browser,
        `scale-${name}`,
        async (context) => {
          const seen = await measured(await context.newPage(), path(), useful);
          painted.push(seen.useful);
          table[name] = {
            "useful, ms": median(painted),
            "largest answer, kB": Math.round(seen.largest / 1000),
            "all answers, kB": Math.round(seen.all / 1000),
            rows: seen.rows,
            elements: seen.elements,
          };
          expect(seen.largest, seen.of).toBeLessThan(mostBytes);
          expect(seen.rows).toBeLessThan(mostRows);
        },
        { storageState: session },
      );
    }
  });
}

/** measured opens a page, and waits until it has read all that it reads. */
async function measured(page: Page, path: string, useful: string) {
  let largest = 0;
  let all = 0;
  let of = "";
  const bodies: Promise<void>[] = [];
  page.on("response", (response) => {
    const { pathname } = new URL(response.url());
    if (!pathname.startsWith("/api/") || pathname.endsWith("/logs")) return;
    const read = response.body().then((body) => {
      all += body.length;
      if (body.length <= largest) return;
      largest = body.length;
      of = response.url();
    });
    read.catch(() => undefined); // whoever waits for it hears of it
    bodies.push(read);
  });
  await page.addInitScript((words) => {
    const look = () => {
      if (!document.querySelector("main")?.textContent?.includes(words)) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => performance.mark("useful")));
    };
    const observer = new MutationObserver(look);
    observer.observe(document, { subtree: true, childList: true, characterData: true });
  }, useful);
  await page.goto(server.url + path);
  await page.waitForFunction(() => performance.getEntriesByName("useful").length > 0, undefined, { polling: 100 }); // costs next to nothing
  await page.getByRole("main").getByText(useful).first().waitFor();
  await page.waitForLoadState("networkidle");
  await Promise.all(bodies);
  const shown = await page.evaluate(() => ({
    useful: performance.getEntriesByName("useful")[0]?.startTime ?? NaN,
    rows: document.querySelectorAll("tr, li").length,
    elements: document.querySelectorAll("*").length,
  }));
  return { ...shown, largest, all, of };
}

/** settled does something to the list of pools, and returns how long it took until the screen showed it, in milliseconds. */
async function settled(page: Page, act: () => Promise<unknown>, shown: string): Promise<number> {
  // From the event of the input to the frame after the list has changed: what a person sees, without this test's own way.
  await page.evaluate((words) => {
    performance.clearMarks();
    const began = (e: Event) => performance.mark("began", { startTime: e.timeStamp });
    for (const type of ["input", "change"]) addEventListener(type, began, { capture: true, once: true });
    const look = () => {
      if (performance.getEntriesByName("began").length === 0) return;
      if (!document.querySelector("main")?.textContent?.includes(words)) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => performance.mark("ended")));
    };
    const observer = new MutationObserver(look);
    observer.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  }, shown);
  await act();
  await page.waitForFunction(() => performance.getEntriesByName("ended").length > 0);
  return page.evaluate(() => {
    const [began] = performance.getEntriesByName("began");
    const [ended] = performance.getEntriesByName("ended");
    return began && ended ? ended.startTime - began.startTime : NaN;
  });
}

/** mostClaimed is the name of the pool that a sort by claims brings to the top. */
async function mostClaimed(): Promise<string> {
  const all: { template: string; preset: string; claims: number }[] = [];
  let after = "";
  do {
    const page = (await server.api("GET", `/api/v1/pools?limit=500&after=${encodeURIComponent(after)}`)) as { pools: typeof all; next?: string };
    all.push(...page.pools);
    after = page.next ?? "";
  } while (after);
  const [first] = all.sort((a, b) => b.claims - a.claims);
  return first ? `${first.template}/${first.preset}` : "";
}

test("the list of all pools is filtered, sorted and grouped, and scrolled to its end", async () => {
  const took: Record<"first row" | "filter" | "sort" | "group", number[]> = { "first row": [], filter: [], sort: [], group: [] };
  const last = templates.at(-1) ?? "";
  const most = await mostClaimed();
  for (let round = 0; round < rounds; round++) {
    await browsing(
      browser,
      "scale-interaction",
      async (context) => {
        const page = await context.newPage();
        const { useful } = await measured(page, "/", "kind-000/size-0");
        took["first row"].push(useful);
        const status = page.getByRole("status").filter({ hasText: "presets" });
        await status.getByText(`${presets.toLocaleString("en")} presets`, { exact: true }).waitFor();
        const search = page.getByRole("searchbox");
        took.filter.push(await settled(page, () => search.fill(`${last} size-9`), `1 of ${presets.toLocaleString("en")} presets`));
        await search.fill("");
        await status.getByText(`${presets.toLocaleString("en")} presets`, { exact: true }).waitFor();
        const pools = page.getByRole("list", { name: "Pools", exact: true });
        took.sort.push(await settled(page, () => page.getByLabel("Sort").selectOption("claims"), most));
        await page.getByLabel("Sort").selectOption("name");
        await pools.getByRole("link", { name: "kind-000/size-0" }).waitFor();
        took.group.push(await settled(page, () => page.getByLabel("Group").selectOption("provider"), `sim ${presets}`));
        await page.getByLabel("Group").selectOption("");

        // The end is a long way down, and what has left the screen is no longer in the page.
        await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
        await page.getByRole("link", { name: `${last}/size-9` }).waitFor();
        expect(await pools.getByRole("listitem").count()).toBeLessThan(60);
        if (round > 0) return;

        // A claim still comes by itself.
        await page.evaluate(() => scrollTo(0, 0));
        const first = page.getByRole("listitem").filter({ has: page.getByRole("link", { name: "kind-000/size-0" }) });
        await first.getByRole("img", { name: `${each / 2} ready, ${each / 2} claimed` }).waitFor();
        await server.api("POST", "/api/v1/claims", { template: "kind-000", preset: "size-0" });
        await first.getByRole("img", { name: new RegExp(`\\b${each / 2 + 1} claimed`) }).waitFor();
      },
      { storageState: session },
    );
  }
  const medians = Object.fromEntries(Object.entries(took).map(([what, all]) => [what, median(all)])) as Record<keyof typeof took, number>;
  console.table({ [`${presets} pools, ms`]: medians });
  // Reading all of them from the server is the most that a page does; what it has it shows again in less.
  for (const what of ["filter", "sort", "group"] as const) expect(medians[what], what).toBeLessThan(medians["first row"]);
});

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return Math.round(sorted[Math.floor(sorted.length / 2)] ?? NaN);
}
