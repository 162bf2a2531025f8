import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, test } from "vitest";
import { browsing, live, signIn, startBrowser } from "./browser";
import { startServer, type Server } from "./server";

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--tick", "1s"), startBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** apply makes a version of the template whose workspaces do as `spec` says. */
function apply(spec: string): Promise<unknown> {
  const document = `
templates:
  - name: web
    provider: sim
    spec: {create_latency: 10ms, ${spec}}
    presets: [{name: default, prebuilds: {instances: 6}}]
`;
  return server.api("POST", "/api/v1/apply", { document, file: "rollout.yaml" });
}

function rowOf(page: Page): Locator {
  const pools = page.getByRole("list", { name: "Pools", exact: true });
  return pools.getByRole("listitem").filter({ has: page.getByRole("link", { name: "web/default" }) });
}

test("a rollout, and a rollback, of a version that does not come, and of one that is broken", async () => {
  await browsing(browser, "rollout", async (context) => {
    await apply("ready_latency: 10ms");
    const page = await context.newPage();
    await signIn(page, server);
    await live(page);
    const row = rowOf(page);
    await row.getByText("version 1").first().waitFor();
    await row.getByRole("img", { name: "6 ready", exact: true }).waitFor();

    // It rolls out, and the old ones serve meanwhile.
    await apply("ready_latency: 1h");
    await row.getByText("Version 2 rolls out: 0 of 6 ready, 6 outdated").waitFor();
    await row.getByRole("img", { name: /6 outdated/ }).waitFor();

    // It is rolled back, and what was there is what is wanted again.
    await server.api("POST", "/api/v1/templates/web/rollback", { reason: "too slow" });
    await row.getByText("version 1").first().waitFor();
    await row.getByRole("img", { name: "6 ready", exact: true }).waitFor();
    await row.getByText("rolls out").waitFor({ state: "detached" });

    // A good one replaces all.
    await apply("ready_latency: 20ms");
    await row.getByText("version 3").first().waitFor();
    await row.getByRole("img", { name: "6 ready", exact: true }).waitFor();

    // A broken one stops by itself. The page says so, and why, and the old ones stay.
    await apply("ready_latency: 10ms, fail_permanent: 1");
    const attention = page.getByRole("region", { name: "Needs attention" });
    await attention.getByText("Rollout stopped").waitFor();
    await row.getByRole("img", { name: /6 outdated/ }).waitFor();
    await attention.getByRole("link", { name: "web/default" }).click();
    await page.getByRole("heading", { level: 1, name: "web/default" }).waitFor();
    await page.getByText("simulated permanent failure").first().waitFor();

    await page.goto(server.url);
    await live(page);
    await server.api("POST", "/api/v1/templates/web/rollback", { reason: "broken" });
    await row.getByText("version 3").first().waitFor();
    await row.getByRole("img", { name: "6 ready", exact: true }).waitFor();
    await attention.waitFor({ state: "detached" });
  });
});
