import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browsing, live, patience, signIn, startBrowser } from "./browser";
import { startServer, until, type Server } from "./server";

const configuration = `
providers:
  - {name: cloud, kind: sim}
templates:
  - name: web-ide
    provider: cloud
    idle_cost_per_hour: 0.5
    spec: {create_latency: 10ms, ready_latency: 10ms}
    presets:
      - {name: large, prebuilds: {instances: 3}}
      - name: office-hours
        prebuilds: {instances: 2, schedule: {timezone: UTC, ranges: [{cron: "* 8-18 * * *", instances: 9}]}}
  - name: crash
    provider: local
    keep_failures: {maximum: 1}
    spec: {setup: [sh, -c, "echo looking for libfoo; exit 3"], command: [sleep, infinity]}
    presets: [{name: default, prebuilds: {instances: 1}}]
`;

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--tick", "1s", "--quickstart"), startBrowser()]);
  await server.api("POST", "/api/v1/apply", { document: configuration, file: "e2e.yaml" });
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

const claim = (template: string, preset: string) =>
  server.api("POST", "/api/v1/claims", { template, preset, wait: "90s" }) as Promise<{ name: string }>;

/** drawn is how much ink there is in a chart: the lengths of its paths, and how many bars and dots. */
async function drawn(page: Page, title: RegExp): Promise<{ paths: number; shapes: number }> {
  return page.getByRole("figure", { name: title }).evaluate((figure) => ({
    paths: [...figure.querySelectorAll<SVGPathElement>("svg[role=img] > path")].filter((p) => (p.getAttribute("d") ?? "") !== "").length,
    shapes: figure.querySelectorAll("svg[role=img] > g > rect, svg[role=img] > circle").length,
  }));
}

test("charts show what was claimed and built, for the range that the address says", async () => {
  await browsing(browser, "charts", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/presets/web-ide/large`);
    const over = page.getByRole("region", { name: "Over time" });
    await over.getByRole("figure", { name: "Ready", exact: true }).waitFor();
    expect((await drawn(page, /^Ready$/)).paths).toBeGreaterThan(0); // what is so now is there from the beginning

    // What is claimed is counted within a minute.
    await Promise.all([claim("web-ide", "large"), claim("web-ide", "large")]);
    const expected = /Claims: 2, of them/;
    await expect
      .poll(
        async () => {
          await page.reload();
          await over.getByRole("figure", { name: "Ready", exact: true }).waitFor();
          return over.getByRole("img", { name: expected }).count();
        },
        { timeout: 2 * patience, interval: 3_000 },
      )
      .toBe(1);
    expect((await drawn(page, /^Claims/)).shapes).toBeGreaterThan(0);
    expect((await drawn(page, /^Claimed$/)).paths).toBeGreaterThan(0);
    expect((await drawn(page, /^Time until ready$/)).shapes).toBeGreaterThan(0);

    // The step under the pointer is told, in all of them at once, and in a table to whoever would rather read.
    const chart = over.getByRole("img", { name: /^Ready of desired/ });
    const box = (await chart.boundingBox())!;
    await chart.hover({ position: { x: box.width - 3, y: box.height / 2 } }); // wherever it is by now
    await over.getByText(/\d\d:\d\d to \d\d:\d\d/).waitFor();
    await over.getByText("The same in numbers").click();
    await over.getByRole("table").getByRole("row").nth(1).waitFor();

    // The range is in the address, and stays when it is loaded anew.
    await over.getByRole("link", { name: "7 d" }).click();
    await over.getByRole("figure", { name: "Claims in 7 d" }).waitFor();
    expect(page.url()).toContain("range=7d");
    await page.reload();
    await over.getByRole("figure", { name: "Claims in 7 d" }).waitFor();
    await over.getByRole("img", { name: expected }).waitFor();

    // What another size would have made of the same claims is asked of the server.
    const size = page.getByRole("region", { name: "Size" });
    await size.getByRole("slider").fill("0");
    await size.getByText("0 %", { exact: true }).waitFor();
    await size.getByRole("button", { name: "Resize to 0" }).waitFor();
  });
});

test("a resize is planned first, and applied as planned", async () => {
  await browsing(browser, "resize", async (context, problems) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/presets/web-ide/large`);
    const before = await context.newPage();
    await before.goto(server.url);
    await live(before);

    const size = page.getByRole("region", { name: "Size" });
    await size.getByRole("button", { name: /^Resize/ }).click();
    const dialog = page.getByRole("dialog", { name: "Resize web-ide/large" });
    await dialog.getByLabel("Instances").fill("5");
    await dialog.getByRole("button", { name: "Show the plan" }).click();
    const plan = dialog.getByRole("region", { name: "Plan" });
    await plan.getByText("instances: 3 → 5").waitFor();
    await plan.getByText("creates 2.").waitFor();
    const preset = async () => (await server.api("GET", "/api/v1/presets/web-ide/large")) as { desired: number };
    expect((await preset()).desired).toBe(3); // nothing is changed before it is applied

    // Another number is another plan.
    await dialog.getByLabel("Instances").fill("4");
    await plan.waitFor({ state: "detached" });
    await dialog.getByRole("button", { name: "Show the plan" }).click();
    await plan.getByText("creates 1.").waitFor();
    await dialog.getByRole("button", { name: "Apply this plan" }).click();
    await dialog.waitFor({ state: "hidden" });
    await page.getByRole("region", { name: "Slots" }).getByText(/ready of 4 desired/).waitFor();
    const row = before.getByRole("listitem").filter({ has: before.getByRole("link", { name: "web-ide/large" }) });
    await row.getByRole("img", { name: /^4 ready/ }).waitFor();

    // What somebody changed meanwhile is not run over.
    await size.getByRole("button", { name: /^Resize/ }).click();
    await dialog.getByLabel("Instances").fill("6");
    await dialog.getByRole("button", { name: "Show the plan" }).click();
    await plan.waitFor();
    await server.api("POST", "/api/v1/apply", { document: configuration.replace("{instances: 3}", "{instances: 2}") });
    await dialog.getByRole("button", { name: "Apply this plan" }).click();
    await dialog.getByRole("alert").getByText(/the state has moved/).waitFor();
    expect((await preset()).desired).toBe(2);
    problems.splice(0, problems.length, ...problems.filter((p) => !p.includes("409"))); // which browsers report as an error
  });
});

test("a pause has a reason and an end, and a nudge says what it does", async () => {
  await browsing(browser, "pause-until", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/presets/web-ide/office-hours`);
    await page.getByRole("button", { name: "Pause" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Claims go on").waitFor();
    await dialog.getByLabel("For how long").selectOption({ label: "a week" });
    await dialog.getByLabel("Reason").fill("moving house");
    await dialog.getByRole("button", { name: "Pause" }).click();
    await page.getByText(/Paused \(preset: moving house\)/).getByText(/in [67] d/).waitFor();
    const pauses = (await server.api("GET", "/api/v1/pauses")) as { reason: string; expires_at?: string; target: string }[];
    expect(pauses.map((p) => [p.target, p.reason, p.expires_at !== undefined])).toEqual([["web-ide/office-hours", "moving house", true]]);
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await page.getByRole("button", { name: "Pause" }).waitFor();

    await page.getByRole("region", { name: "Why this state" }).getByRole("button", { name: "Nudge" }).click();
    const nudge = page.getByRole("dialog", { name: "Nudge web-ide/office-hours?" });
    await nudge.getByText("no setting is changed").waitFor();
    await nudge.getByRole("button", { name: "Nudge" }).click();
    await page.getByText("A pass was requested.").waitFor();

    // What its schedule changes next is in its row.
    await page.goto(server.url);
    const row = page.getByRole("listitem").filter({ has: page.getByRole("link", { name: "web-ide/office-hours" }) });
    await row.getByText(/By its schedule/).waitFor();
  });
});

test("a cause has the last lines of the log, and a reset begins anew", async () => {
  await browsing(browser, "causes", async (context) => {
    // The first failure is kept, with the end of what it wrote.
    await expect
      .poll(
        async () => {
          const { causes } = (await server.api("GET", "/api/v1/presets/crash/default/failures")) as { causes: { workspace: string }[] };
          const last = causes[0] && ((await server.api("GET", `/api/v1/workspaces/${causes[0].workspace}`)) as { evidence?: string });
          return last?.evidence ?? "";
        },
        { timeout: patience, interval: 500 },
      )
      .toContain("looking for libfoo");
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/presets/crash/default`);
    const causes = page.getByRole("region", { name: "Failures by cause" });
    await causes.getByText(/setup ended with exit status/).first().waitFor();
    await causes.getByRole("region", { name: /^The last lines of/ }).getByText("looking for libfoo").waitFor();
    await causes.getByRole("button", { name: "Reset failures" }).click();
    const dialog = page.getByRole("dialog", { name: "Reset the failures of crash/default?" });
    await dialog.getByText("also past the hard limit").waitFor();
    await dialog.getByRole("button", { name: "Reset failures" }).click();
    await page.getByText("Creates of crash/default begin again.").waitFor();
  });
});

test("a workspace is kept for inspection, with a reason, and its lease is renewed", async () => {
  await browsing(browser, "keep", async (context) => {
    const { name } = await claim("quickstart", "default");
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/workspaces/${name}`);
    const claimed = page.getByRole("region", { name: "Claim", exact: true });
    await claimed.getByText("It has no lease").waitFor();
    await claimed.getByRole("button", { name: "Give it a lease" }).click();
    const lease = page.getByRole("dialog", { name: `Give ${name} a lease?` });
    await lease.getByText("is released and its content is deleted", { exact: false }).waitFor();
    await lease.getByRole("button", { name: "Give it a lease" }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" }); // until then its button has the new name, too
    await claimed.getByText(/Its lease ends in [78] h/).waitFor();
    await claimed.getByRole("button", { name: "Renew the lease" }).waitFor();
    expect(await page.getByRole("button", { name: /^Keep/ }).count()).toBe(0); // it is somebody's

    let ready = "";
    await until("another one is ready", async () => {
      const list = (await server.api("GET", "/api/v1/workspaces?state=ready&template=quickstart")) as { workspaces: { name: string }[] };
      ready = list.workspaces[0]?.name ?? "";
      return ready !== "";
    });
    await page.goto(`${server.url}/workspaces/${ready}`);
    await page.getByRole("button", { name: "Keep for inspection" }).click();
    const dialog = page.getByRole("dialog", { name: `Keep ${ready} for inspection?` });
    await dialog.getByText("its pool builds another").waitFor();
    await dialog.getByLabel("Reason").fill("its disk is full");
    await dialog.getByRole("button", { name: "Keep for inspection" }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    const timeline = page.getByRole("region", { name: "Timeline" });
    await timeline.getByText("quarantined", { exact: true }).waitFor();
    await timeline.getByText("kept by owner: its disk is full").waitFor();
    await timeline.getByText(/usually /).first().waitFor();
    await page.getByRole("button", { name: "Keep longer" }).waitFor();

    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("dialog").getByLabel("Force").check();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await timeline.getByText("deleted", { exact: true }).waitFor();
  });
});
