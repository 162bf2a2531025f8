import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browsing, live, patience, signIn, startBrowser } from "./browser";
import { startServer, type Server } from "./server";

/** A breaker that opens while one looks on, and closes by itself only long after that. */
const cloud = `
providers:
  - {name: cloud, kind: sim, maximum: 60, inventory_every: 1s, breaker: {count: 3, clean: 30}}
`;

/** configuration of the cloud, with a template whose prebuilds are ready after so long. */
const configuration = (template: string, ready: string) => `${cloud}
templates:
  - name: ${template}
    description: The front end, in a browser
    provider: cloud
    rollout: {progress_deadline: 2s}
    spec: {create_latency: 10ms, ready_latency: ${ready}}
    presets: [{name: small, prebuilds: {instances: 4}}]
`;

/** scarce has nothing to claim: who asks stands in line. */
const scarce = `${cloud}
templates:
  - name: scarce
    provider: cloud
    spec: {create_latency: 10ms, ready_latency: 1h}
    presets: [{name: default, prebuilds: {instances: 1}}]
  - name: agents
    provider: cloud
    spec: {create_latency: 10ms, ready_latency: 10ms}
    presets: [{name: default, prebuilds: {instances: 8}}]
`;

/** moved is a provider of its own, which is deleted. */
const moved = `
providers:
  - {name: moved, kind: sim}
templates:
  - name: moved
    provider: moved
    spec: {create_latency: 10ms, ready_latency: 10ms}
    presets: [{name: default, prebuilds: {instances: 2}}]
`;

/** many leave more in the log than a page of it holds. */
const many = `
templates:
  - name: many
    provider: sim
    spec: {create_latency: 1ms, ready_latency: 1ms}
    presets: [{name: default, prebuilds: {instances: 120}}]
`;

/** apply has a configuration hold. Each test does so with its own: none needs another to have run. */
const apply = (document: string) => server.api("POST", "/api/v1/apply", { document, file: "e2e.yaml" });

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--tick", "1s"), startBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** accessible holds what is on the screen now against axe, at the width and in the scheme that it has. */
async function accessible(page: Page): Promise<void> {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.evaluate(axe.source);
  const found = await page.evaluate(() =>
    (window as unknown as { axe: typeof axe }).axe.run({ resultTypes: ["violations"] }),
  );
  expect(found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" ")}`)).toEqual([]);
}

/** expected are answers that say no, which browsers report as errors. */
const expected = (problems: string[], ...statuses: number[]) =>
  problems.splice(0, problems.length, ...problems.filter((p) => !statuses.some((s) => p.includes(`status of ${s}`))));

test("a file is planned, then applied; what is wrong in it is shown, and a plan that has moved is refused", async () => {
  await browsing(browser, "apply", async (context, problems) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.getByRole("link", { name: "Templates" }).click();
    await page.getByRole("link", { name: "Apply a file" }).click();
    const text = page.getByRole("textbox", { name: /YAML/ });

    // A setting that does not exist is named, with the line that it is in.
    await text.fill(configuration("web-ide", "10ms").replace("rollout:", "rolout:"));
    await page.getByRole("button", { name: "Show what it does" }).click();
    const refusal = page.getByRole("alert");
    await refusal.getByText("rolout", { exact: false }).first().waitFor();
    await refusal.getByText("rolout: {progress_deadline: 2s}").waitFor();
    await accessible(page);

    // A file that is chosen takes the place of what was pasted; the plan says what it would do, and nothing is done yet.
    const file = join(server.data, "web-ide.yaml");
    writeFileSync(file, configuration("web-ide", "10ms"));
    await page.getByLabel("File to apply").setInputFiles(file);
    await page.getByText("web-ide.yaml").waitFor();
    await page.getByRole("button", { name: "Show what it does" }).click();
    const changes = page.getByRole("region", { name: "What the file changes" });
    await changes.getByText("template web-ide").waitFor();
    await page.getByRole("region", { name: "What the next pass then does" }).getByText("Create 4 prebuilds", { exact: true }).waitFor();
    const templates = (await server.api("GET", "/api/v1/templates")) as { name: string }[];
    expect(templates.map((t) => t.name)).not.toContain("web-ide");
    await accessible(page);
    await page.getByRole("button", { name: "Apply this plan" }).click();
    await page.getByRole("status").getByText(/^Applied: [34] changes$/).waitFor();

    // Another plan; but before it is applied, somebody else changes the same.
    await text.fill(configuration("web-ide", "20ms"));
    await page.getByRole("button", { name: "Show what it does" }).click();
    await changes.getByText("version 2 of web-ide").waitFor();
    await apply(configuration("web-ide", "20ms"));
    await page.getByRole("button", { name: "Apply this plan" }).click();
    await page.getByRole("alert").getByText("Nothing was applied", { exact: false }).waitFor();
    await page.getByRole("button", { name: "Plan again" }).click();
    await page.getByText("everything is as the file says").waitFor();
    expect(await page.getByRole("button", { name: "Apply this plan" }).isDisabled()).toBe(true);
    expected(problems, 409, 422);
  });
});

test("a version that does not become ready stops, is compared with the one before, and is rolled back", async () => {
  await browsing(browser, "rollout", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await apply(configuration("rolling", "10ms"));
    await apply(configuration("rolling", "20ms"));
    await page.goto(`${server.url}/templates/rolling`);
    const rollout = page.getByRole("region", { name: "Rollout" });
    await rollout.getByText("complete").waitFor();
    await live(page);

    await apply(configuration("rolling", "1h"));
    await page.getByText("The rollout of small stopped; the old pool is kept.").waitFor();
    await page.getByText("progress deadline of 2s", { exact: false }).waitFor();
    await rollout.getByText("version 3").waitFor();
    await rollout.getByRole("img", { name: "4 outdated" }).waitFor();
    const differs = page.getByRole("figure", { name: "version 2 compared with version 3: 1 lines removed, 1 added" });
    await differs.getByText("1h").last().waitFor();
    await accessible(page);

    // Any two versions are compared, and which is in the address.
    await page.getByLabel("Before").selectOption({ label: "version 1" });
    await page.getByRole("figure", { name: /^version 1 compared with version 3/ }).waitFor();
    expect(page.url()).toContain("from=1");
    await page.reload();
    await page.getByRole("figure", { name: /^version 1 compared with version 3/ }).waitFor();

    await page.getByRole("button", { name: "Roll back to 2" }).click();
    const dialog = page.getByRole("dialog", { name: "Make version 2 of rolling the active one?" });
    await dialog.getByText("Version 3 is left", { exact: false }).waitFor();
    await dialog.getByLabel("Reason").fill("too slow");
    await accessible(page);
    await dialog.getByRole("button", { name: "Roll back to 2" }).click();
    await rollout.getByText("complete").waitFor();
    await page.getByRole("button", { name: "Roll back to 3" }).waitFor();

    // It can be deprecated and taken back.
    await page.getByRole("button", { name: "Deprecate" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Deprecate" }).click();
    await page.getByText("its pools run empty", { exact: false }).waitFor();
    await page.getByRole("button", { name: "Take back" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Take back" }).click();
    await rollout.getByText("complete").waitFor();
  });
});

test("claims are seen in line and in use, are renewed and released, and found by the address", async () => {
  await browsing(browser, "claims", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await apply(scarce);
    const claim = (await server.api("POST", "/api/v1/claims", {
      template: "agents",
      preset: "default",
      lease: "2h",
      wait: "90s",
    })) as { name: string };
    const gone = new AbortController();
    for (let i = 0; i < 2; i++) {
      void fetch(`${server.url}/api/v1/claims`, {
        method: "POST",
        signal: gone.signal,
        headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json" },
        body: JSON.stringify({ template: "scarce", preset: "default", wait: "10m" }),
      }).catch(() => undefined); // who waits is gone with the test
    }
    await page.getByRole("link", { name: "Claims" }).click();
    const used = page.getByRole("table", { name: "Claims in use" });
    const row = used.getByRole("row").filter({ hasText: claim.name });
    await row.getByText("hit").or(row.getByText("waited", { exact: true })).first().waitFor();
    await row.getByText(/^1 h 59 min left|^2 h left/).waitFor();

    await page.getByRole("navigation", { name: "States of claims" }).getByRole("link", { name: "Waiting" }).click();
    const line = page.getByRole("table", { name: "Waiting claims, the longest first" });
    await line.getByRole("row").nth(2).waitFor();
    await line.getByText("next", { exact: true }).waitFor();
    await line.getByText("in line", { exact: true }).waitFor();
    await accessible(page);
    gone.abort();
    await page.getByText("Nobody waits").waitFor();

    // Renewed for longer than it was asked for, which its time left shows; then released, as seen without asking.
    await page.goto(`${server.url}/claims?template=agents&user=owner`);
    await row.getByRole("button", { name: "Renew" }).click();
    await page.getByRole("dialog").getByLabel("From now on for").selectOption("24h");
    await accessible(page);
    await page.getByRole("dialog").getByRole("button", { name: "Renew" }).click();
    await row.getByText(/^23 h 59 min left|^1 d left/).waitFor();
    await row.getByRole("button", { name: "Release" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Release" }).click();
    await page.getByText("No claim matches").waitFor();
    await page.getByRole("link", { name: "Released" }).click();
    await page.getByRole("table", { name: "Released claims" }).getByText(claim.name).waitFor();

    // A filter is in the address, a moment after it was written.
    await page.getByLabel("Filter").fill("nobody");
    await page.getByText("No claim matches").waitFor();
    expect(page.url()).toContain("q=nobody");
    expect(page.url()).toContain("state=released");
  });
});

test("a breaker says why it opened and how far it is, shows what is missing, and is closed by a person", async () => {
  await browsing(browser, "breaker", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await apply(scarce);
    await page.goto(`${server.url}/templates/agents`);
    await page.getByRole("region", { name: "Rollout" }).getByRole("img", { name: "8 ready", exact: true }).waitFor();
    await page.goto(`${server.url}/providers/cloud`);
    await page.getByText("No differences found.").waitFor();
    await live(page);

    // Most of what the cloud has is lost behind Prewarm's back.
    const resources = join(server.data, "sim", "resources");
    for (const name of readdirSync(resources).slice(0, 8)) rmSync(join(resources, name), { force: true });
    await page.getByText("The breaker is open: nothing is created or deleted there. Claims go on.").waitFor();
    await page.getByText(/new discrepancies among/).waitFor();
    await page.getByRole("img", { name: /of 30 clean inventories in a row/ }).waitFor();
    await page.getByRole("button", { name: "Run inventory" }).click();
    const found = page.getByRole("list", { name: "Discrepancies" });
    await found.getByText("the provider does not have it", { exact: false }).first().waitFor();
    await accessible(page);
    await page.goto(`${server.url}/providers`);
    await page.getByRole("listitem").filter({ hasText: "cloud" }).getByText("breaker open").waitFor();
    await page.getByRole("link", { name: "cloud" }).click();

    await page.getByRole("button", { name: "Resume" }).click();
    const dialog = page.getByRole("dialog", { name: "Close the breaker of cloud?" });
    await dialog.getByText("discrepancies among", { exact: false }).waitFor();
    await dialog.getByRole("button", { name: "Resume" }).click();
    await page.getByText("Creates and deletes go on at cloud.").waitFor();
    await page.getByText("The breaker is open", { exact: false }).waitFor({ state: "detached" });
  });
});

test("a provider in use is deleted by force only, and says what is left there", async () => {
  await browsing(browser, "delete-provider", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await apply(moved);
    await page.goto(`${server.url}/templates/moved`);
    await page.getByRole("region", { name: "Rollout" }).getByRole("img", { name: "2 ready", exact: true }).waitFor();
    await server.api("POST", "/api/v1/claims", { template: "moved", preset: "default", mode: "require" });
    await page.goto(`${server.url}/providers/moved`);
    await page.getByRole("button", { name: "Delete" }).click();
    const dialog = page.getByRole("dialog", { name: "Delete provider moved?" });
    await dialog.getByRole("button", { name: "Delete" }).click();
    await dialog.getByRole("alert").getByText("is used by template moved (version 1)", { exact: false }).waitFor();
    await accessible(page);
    await dialog.getByLabel("Also while it is in use", { exact: false }).check();
    await dialog.getByRole("button", { name: "Delete" }).click();
    await page.getByText("moved is deleted.").waitFor();
    await page.getByText("Left there: 1 claimed.", { exact: false }).waitFor();
    await accessible(page);
    await page.goto(`${server.url}/providers`);
    await page.getByRole("listitem").filter({ hasText: "moved" }).getByText("deleted", { exact: true }).waitFor();
    expect(await page.getByRole("button", { name: "Delete" }).count()).toBe(0);
  });
});

test("a provider is checked case by case while one looks on", async () => {
  await browsing(browser, "check", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/providers/sim`);
    await page.getByRole("button", { name: "Check provider" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Check provider" }).click();
    await page.getByRole("list", { name: "Cases" }).getByText("(passed)").first().waitFor();
    await page.getByText("It is safe to use.").waitFor();
    await accessible(page);
  });
});

test("a token's secret is shown once; its role decides what is there; revoked, it lets nobody in", async () => {
  await browsing(browser, "tokens", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await apply(configuration("rolling", "10ms"));
    await page.getByRole("link", { name: "Users & tokens" }).click();
    await page.getByRole("button", { name: "Create token" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("audits");
    await dialog.getByLabel("For whom").fill("eve");
    await dialog.getByLabel("Role of the new user").selectOption("auditor");
    await accessible(page);
    await dialog.getByRole("button", { name: "Create token" }).click();
    await dialog.getByText("It is shown only this once", { exact: false }).waitFor();
    const secret = (await dialog.getByText(/^pw_/).textContent()) ?? "";
    expect(secret.length).toBeGreaterThan(20);
    await accessible(page);
    await dialog.getByRole("button", { name: "Done" }).click();
    await page.getByRole("list", { name: "Tokens of eve" }).getByText("audits", { exact: true }).waitFor();
    expect(await page.content()).not.toContain(secret);

    // An auditor sees it all, and may do nothing.
    await browsing(browser, "auditor", async (others) => {
      const theirs = await others.newPage();
      await signIn(theirs, server, secret);
      await theirs.goto(`${server.url}/templates/rolling`);
      await theirs.getByRole("region", { name: "Rollout" }).waitFor();
      for (const name of ["Delete", "Deprecate", /Roll back/]) expect(await theirs.getByRole("button", { name }).count()).toBe(0);
      await theirs.goto(`${server.url}/providers/cloud`);
      await theirs.getByRole("region", { name: "Limits" }).waitFor();
      expect(await theirs.getByRole("button", { name: "Check provider" }).count()).toBe(0);
      await theirs.goto(`${server.url}/apply`);
      await theirs.getByText("Your role cannot change the configuration", { exact: false }).waitFor();
      await theirs.goto(`${server.url}/tokens`);
      await theirs.getByRole("region", { name: "Quota of default" }).waitFor();
      expect(await theirs.getByRole("button").filter({ hasText: /Revoke|Change|Create token/ }).count()).toBe(0);
      await live(theirs);

      await page.getByRole("list", { name: "Tokens of eve" }).getByRole("button", { name: "Revoke" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
      await theirs.getByText("Your session is over").waitFor();
    });
    await page.getByLabel(/also \d+ tokens? that (is|are) over/).check();
    await page.getByRole("list", { name: "Tokens of eve" }).getByText("revoked", { exact: true }).waitFor();

    await page.getByRole("region", { name: "Quota of default" }).getByRole("button", { name: "Change" }).click();
    await dialog.getByLabel("By all together").fill("25");
    await dialog.getByText("at most 25 at once by all users together", { exact: false }).waitFor();
    await dialog.getByRole("button", { name: "Change" }).click();
    await page.getByRole("img", { name: /of 25 claimed$/ }).waitFor();
  });
});

test("the log tells who did what, narrowed by what one clicks or writes, and the passes go on", async () => {
  await browsing(browser, "audit", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await apply(many);
    await server.api("PUT", "/api/v1/quotas", { maximum: 40 });
    await server.api("POST", "/api/v1/presets/many/default/reset", { reason: "mended by hand" });
    await page.goto(`${server.url}/audit?people=true`);
    const log = page.getByRole("table", { name: "Audit log" });
    await log.getByText("mended by hand").waitFor();
    expect(await log.getByText("prewarm", { exact: true }).count()).toBe(0);
    await log.getByRole("button", { name: "quota.set" }).first().click();
    await page.waitForURL((url) => url.searchParams.get("action") === "quota.set");
    await log.getByText("mended by hand").waitFor({ state: "detached" }); // what was there stays until there is an answer
    await log.getByText("maximum").first().waitFor();
    await page.getByLabel("Until").fill("2020-01-01T00:00");
    await page.getByText("Nothing on record matches").waitFor();
    await page.getByRole("button", { name: "Clear filters" }).click();
    await log.getByText("prewarm", { exact: true }).first().waitFor();
    // Page by page: the next one is below the first.
    await page.getByRole("status").filter({ hasText: "100 entries, and there are more" }).waitFor();
    await page.getByRole("button", { name: "Show more" }).click();
    await page.getByRole("status").filter({ hasText: /^(?!100 )[1-9][0-9]{2} entries/ }).waitFor();

    await page.getByRole("link", { name: "Replicas" }).click();
    const pass = page.getByRole("region", { name: "Last pass" });
    await pass.getByText(/^number [1-9]/).waitFor();
    expect(await page.getByText("No full pass has succeeded").count()).toBe(0);
    const number = await pass.getByText(/^number/).textContent();
    await expect.poll(() => pass.getByText(/^number/).textContent(), { timeout: patience }).not.toBe(number);
  });
});
