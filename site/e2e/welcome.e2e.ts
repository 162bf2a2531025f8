import type { Browser } from "playwright-core";
import { afterAll, beforeAll, test } from "vitest";
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

test("an empty installation leads to a first pool and a first claim", async () => {
  await browsing(browser, "welcome", async (context) => {
    const page = await context.newPage();
    // After signing in one is where one wanted to be.
    await page.goto(`${server.url}/welcome`);
    await page.getByLabel("Token").fill(server.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { level: 1, name: "Welcome" }).waitFor();
    await page.getByRole("link", { name: "Pools", exact: true }).click();
    await page.getByText("No pools yet").waitFor();
    await page.getByRole("link", { name: "Create a first pool" }).click();
    await page.getByRole("button", { name: "Create this pool" }).click();
    await page.getByText("3 workspaces are ready").waitFor();
    await page.getByRole("button", { name: "Claim one" }).click();
    await page.getByRole("link", { name: /^prebuild-/ }).waitFor();
    await page.getByText(/^prewarm workspace exec prebuild-\w+ -- sh$/).waitFor();
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
