import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accessible } from "./axe";
import { browsing, live, patience, signIn, startBrowser } from "./browser";
import { startForge, startServer, until, type Forge, type Server } from "./server";

let server: Server;
let forge: Forge;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--tick", "1s"), startBrowser()]);
  forge = await startForge(server);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
  await forge?.stop();
});

/** What is wrong stands at the field, which has the focus. */
async function wrong(page: Page, label: string, text: RegExp): Promise<void> {
  const field = page.getByRole("dialog").getByLabel(label, { exact: true });
  await page.getByRole("dialog").getByRole("alert").filter({ hasText: text }).waitFor();
  await expect.poll(() => field.evaluate((el) => el === document.activeElement), { timeout: patience, message: `${label} has the focus` }).toBe(true);
  expect(await field.getAttribute("aria-invalid")).toBe("true");
  const described = await field.evaluate((el) =>
    (el.getAttribute("aria-describedby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? ""),
  );
  expect(described.some((t) => text.test(t)), `${label} is described by ${described.join("; ")}`).toBe(true);
}

/** What the browser reports as an error is that the server refused what was to be refused. */
const refused = (problems: string[]) =>
  problems.splice(0, problems.length, ...problems.filter((p) => !/status of (400|401|409|422|501)/.test(p)));

/** All that is on the screen and in fields. */
const seen = (page: Page) =>
  page.evaluate(() => document.documentElement.outerHTML + [...document.querySelectorAll("input, textarea")].map((f) => (f as HTMLInputElement).value).join("\n"));

test("by the keyboard alone, a credential and a forge are added; what is wrong stands at its field, and no secret comes back", async () => {
  await browsing(browser, "forges-add", async (context, problems) => {
    const answers: string[] = [];
    context.on("response", (response) => {
      if (response.url().includes("/api/")) void response.text().then((text) => answers.push(text), () => undefined);
    });
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/jobs`);
    await page.getByText("No forge is connected yet").waitFor();
    await page.getByRole("button", { name: "Add credential" }).focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name", { exact: true }).focus();
    await page.keyboard.type("acme app");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    await page.keyboard.type("http://forge.example.com/api/v3");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    await page.keyboard.type(forge.token);
    await page.keyboard.press("Enter");
    await wrong(page, "Name", /lower-case letters/);
    await accessible(page, "credential-error");
    await dialog.getByLabel("Name", { exact: true }).fill("acme-app");
    await page.keyboard.press("Enter");
    await wrong(page, "URL of the API", /must begin with https/);
    await dialog.getByLabel("URL of the API").fill(forge.api);
    const bundle = join(server.directory, "not-a.pem");
    mkdirSync(server.directory, { recursive: true });
    writeFileSync(bundle, "nonsense");
    await dialog.getByLabel("Certificate authorities").setInputFiles(bundle);
    await dialog.getByLabel("URL of the API").press("Enter");
    await wrong(page, "Certificate authorities", /not PEM/);
    await dialog.getByLabel("Certificate authorities").setInputFiles([]);
    expect(await dialog.getByLabel("Token", { exact: true }).inputValue(), "what was written is kept").toBe(forge.token);
    await dialog.getByLabel("URL of the API").press("Enter");
    const credentials = page.getByRole("list", { name: "Credentials" });
    await credentials.getByText("acme-app", { exact: true }).waitFor();
    await credentials.getByText("used by 0 forges", { exact: false }).waitFor();
    await dialog.waitFor({ state: "hidden" });
    expect(await seen(page)).not.toContain(forge.token);

    // A name that is taken would change what is there.
    await page.getByRole("button", { name: "Add credential" }).click();
    await dialog.getByLabel("Name", { exact: true }).fill("acme-app");
    await dialog.getByLabel("Token", { exact: true }).fill("another");
    await page.keyboard.press("Enter");
    await wrong(page, "Name", /there is a credential acme-app already/);
    await page.keyboard.press("Escape");

    await page.getByRole("button", { name: "Add forge" }).click();
    await dialog.getByLabel("Name", { exact: true }).fill("acme");
    await dialog.getByLabel("Path", { exact: true }).fill("acme/shop");
    await dialog.getByLabel("Webhook secret").fill("short");
    await page.keyboard.press("Enter");
    await wrong(page, "Webhook secret", /at least 16 characters/);
    await dialog.getByLabel("Webhook secret").fill("");
    await page.keyboard.press("Enter");
    await wrong(page, "Path", /with the scope organization it is like acme/);
    await accessible(page, "forge-error");
    await dialog.getByLabel("Path", { exact: true }).fill("acme");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "acme is added" }).waitFor();
    await dialog.getByText("The forge has no webhook that calls this server", { exact: false }).waitFor();
    await dialog.getByText("Webhook secret, to make the webhook by hand").click();
    const secret = (await dialog.getByText(/^[0-9a-f]{64}$/).textContent()) ?? "";
    await accessible(page, "forge-added");
    await dialog.getByRole("button", { name: "Close" }).click();
    await page.getByRole("list", { name: "Forges" }).getByRole("heading", { name: "acme" }).waitFor();
    await credentials.getByText("used by 1 forge", { exact: false }).waitFor();
    expect(await seen(page)).not.toContain(secret);
    await page.reload();
    await credentials.waitFor();
    await page.getByRole("list", { name: "Forges" }).getByText("works", { exact: true }).waitFor();
    await accessible(page, "forges-connected");
    expect(answers.join("\n")).not.toContain(forge.token);
    expect(answers.filter((a) => a.includes(secret)), "it is in one answer, this once").toHaveLength(1);
    refused(problems);
  });
});

test("a webhook that a person made is shown, taken over, and tried", async () => {
  await browsing(browser, "forges-webhook", async (context, problems) => {
    const page = await context.newPage();
    await signIn(page, server);
    await forge.call("POST", "/orgs/acme/hooks", {
      name: "web",
      active: true,
      events: ["push"],
      config: { url: `${server.url}/webhooks/acme`, content_type: "json", secret: "of a person" },
    });
    await page.goto(`${server.url}/jobs?show=forges`);
    await page.getByText("No webhook was installed by Prewarm", { exact: false }).waitFor();
    await page.getByRole("button", { name: "Webhook…" }).click();
    const dialog = page.getByRole("dialog", { name: "Webhook of acme" });
    await dialog.getByText(/A person made webhook \d+/).waitFor();
    await dialog.getByText("push", { exact: true }).waitFor();
    await accessible(page, "webhook-of-a-person");
    await dialog.getByRole("button", { name: "Take over" }).click();
    await dialog.getByText(/Prewarm manages webhook \d+/).waitFor();
    await dialog.getByText("workflow_job", { exact: true }).waitFor();
    const hooks = (await forge.call("GET", "/orgs/acme/hooks")) as { events: string[] }[];
    expect(hooks.map((h) => h.events)).toEqual([["workflow_job"]]);
    await dialog.getByRole("button", { name: "Send a test delivery" }).click();
    await page.getByText("The forge sends a test delivery.").waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("The last delivery came", { exact: false }).waitFor();
    refused(problems);
  });
});

test("a stop that drains retires the idle runners, one that does not keeps them", async () => {
  await browsing(browser, "forges-drain", async (context) => {
    await server.api("POST", "/api/v1/apply", {
      file: "runners.yaml",
      document: `
templates:
  - name: runners
    provider: local
    boot_timeout: 2m
    agent: {runner: ["${forge.runner}"]}
    spec: {command: [sleep, infinity]}
    presets:
      - {name: linux, prebuilds: {instances: 2}, runner: {forge: acme, labels: [self-hosted, linux], maximum: 4}}
`,
    });
    const registered = async () => ((await forge.call("GET", "/orgs/acme/actions/runners")) as { total_count: number }).total_count;
    await until("two runners are registered", async () => (await registered()) === 2);
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/jobs?show=forges`);
    await live(page);
    const stop = async (drain: boolean) => {
      await page.getByRole("button", { name: "Stop" }).click();
      const dialog = page.getByRole("dialog", { name: "Stop acme?" });
      await dialog.getByLabel("Reason").fill("moving house");
      if (drain) await dialog.getByLabel("Drain", { exact: false }).check();
      await accessible(page, `stop-${drain ? "drain" : "keep"}`);
      await dialog.getByRole("button", { name: "Stop" }).click();
    };
    await stop(false);
    await page.getByText("and those without a job stay", { exact: false }).waitFor();
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Start" }).click();
    await page.getByRole("button", { name: "Stop" }).waitFor();
    expect(await registered()).toBe(2);

    await stop(true);
    await page.getByText("and those without a job go", { exact: false }).waitFor();
    await until("the forge has no runner", async () => (await registered()) === 0);
    await page.getByRole("list", { name: "Forges" }).getByLabel("Jobs and runners of acme").getByText("0", { exact: true }).nth(3).waitFor();
  });
});
