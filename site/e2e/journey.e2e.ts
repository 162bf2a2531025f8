import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browsing, live, patience, signIn, startBrowser } from "./browser";
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

test("from nothing to a claim, which a second tab sees as it happens", async () => {
  await browsing(browser, "journey", async (context) => {
    const page = await context.newPage();

    // Nobody is let in without a token that is valid, and afterwards one is where one wanted to be.
    await page.goto(`${server.url}/welcome`);
    await page.getByLabel("Token").fill("pw_wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("not valid").waitFor();
    await page.getByLabel("Token").fill(server.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { level: 1, name: "Welcome" }).waitFor();

    // An empty installation says what to do.
    await page.getByRole("link", { name: "Pools", exact: true }).click();
    await page.getByText("No pools yet").waitFor();
    await page.getByRole("link", { name: "Create a first pool" }).click();
    await page.getByRole("button", { name: "Create this pool" }).click();
    await page.getByText("3 workspaces are ready").waitFor();

    // A second tab, which is told and does not ask: while it hears of changes it asks once in about a minute.
    const second = await context.newPage();
    await second.goto(server.url);
    const row = second.getByRole("listitem").filter({ has: second.getByRole("link", { name: "quickstart/default" }) });
    await row.getByRole("img", { name: "3 ready", exact: true }).waitFor();
    await live(second);
    await page.getByRole("button", { name: "Claim one" }).click();
    const began = performance.now();
    await row.getByRole("img", { name: /1 claimed/ }).waitFor({ timeout: 40_000 });
    console.info(`the second tab saw the claim ${Math.round(performance.now() - began)} ms after the click`);

    // The pool fills up again by itself.
    await row.getByRole("img", { name: "3 ready, 1 claimed" }).waitFor();

    // Its page shows its life; a release says first what it does, and is followed to its end.
    const name = (await page.getByRole("link", { name: /^prebuild-/ }).textContent()) ?? "";
    await page.getByRole("link", { name }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await page.getByRole("region", { name: "Timeline" }).getByText("ready", { exact: true }).first().waitFor();
    await page.getByRole("button", { name: "Release", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: `Release ${name}?` });
    await dialog.getByText("The claim of owner ends").waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "Release", exact: true }).click();
    await dialog.getByRole("button", { name: "Release" }).click();
    await page.getByRole("region", { name: "Timeline" }).getByText("deleted", { exact: true }).waitFor();
    await row.getByRole("img", { name: "3 ready", exact: true }).waitFor();

    // A page's address is its own: it can be loaded anew, and what is filtered is in it.
    await page.reload();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await second.getByRole("searchbox").fill("nothing like it");
    await second.getByText("No pool matches").waitFor();
    expect(second.url()).toContain("q=");
    await second.reload();
    await second.getByText("No pool matches").waitFor();
    await second.goto(`${server.url}/no/such/page`);
    await second.getByRole("heading", { name: "Page not found" }).waitFor();
  });
});

test("a session that is over leads to sign-in, and back", async () => {
  await browsing(browser, "revoked", async (context) => {
    const made = (await server.api("POST", "/api/v1/tokens", { name: "short", user: "ann", role: "auditor" })) as {
      id: string;
      secret: string;
    };
    const page = await context.newPage();
    await signIn(page, server, made.secret);
    await page.getByRole("link", { name: "Replicas" }).click();
    await page.getByRole("table", { name: "Replicas" }).waitFor();
    await live(page);
    await server.api("DELETE", `/api/v1/tokens/${made.id}`);
    await page.getByText("Your session is over").waitFor();
    await page.getByLabel("Token").fill(server.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { level: 1, name: "Replicas" }).waitFor({ timeout: patience });
  });
});
