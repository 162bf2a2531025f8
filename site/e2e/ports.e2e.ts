import { once } from "node:events";
import { createServer, type Server as Program } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accessible } from "./axe";
import { browsing, signIn, startBrowser } from "./browser";
import { startServer, type Server } from "./server";

let server: Server;
let browser: Browser;
let program: Program;
let name: string;
let port: number;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--tick", "1s", "--quickstart", "--workspace-domain", "ws.localhost"), startBrowser()]);
  // A local workspace has the ports of its machine.
  program = createServer((request, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end(`<link rel="icon" href="data:,"><h1>${request.url}</h1><p>${request.headers.host} ${request.headers.cookie ?? "no cookie"}</p>`);
  });
  program.listen(0, "127.0.0.1");
  await once(program, "listening");
  port = (program.address() as AddressInfo).port;
  const claimed = await server.api("POST", "/api/v1/claims", { template: "quickstart", preset: "default", wait: "90s" });
  ({ name } = claimed as { name: string });
});
afterAll(async () => {
  await browser?.close();
  program?.close();
  await server?.stop();
});

test("a port opens in a tab of its own, on an origin of its own, with the keyboard; and ends with the session", async () => {
  await browsing(browser, "port-opens", async (context) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.goto(`${server.url}/workspaces/${name}`);
    const ports = page.getByRole("region", { name: "Ports", exact: true });
    const link = ports.getByRole("link", { name: new RegExp(`^Port ${port}\\b.*opens in a new tab$`) });
    await link.waitFor();
    await accessible(page, "workspace-ports");
    const [tab] = await Promise.all([context.waitForEvent("page"), link.press("Enter")]);
    const origin = `http://${port}--${name}.ws.localhost:${new URL(server.url).port}`;
    await tab.waitForURL(`${origin}/`);
    await tab.getByText(`localhost:${port} no cookie`).waitFor();
    expect(await tab.evaluate(() => [document.cookie, window.opener, document.referrer])).toEqual(["", null, ""]);
    const [cookie] = await context.cookies(origin);
    expect([cookie?.name, cookie?.domain, cookie?.httpOnly, cookie?.sameSite]).toEqual(["prewarm-port", new URL(origin).hostname, true, "Lax"]);

    // Without a cookie the page asks, and leads to where one was going.
    await context.clearCookies({ name: "prewarm-port" });
    await tab.goto(`${origin}/docs?page=2`);
    const button = tab.getByRole("button", { name: `Open port ${port}` });
    await button.waitFor();
    expect(new URL(tab.url()).origin).toBe(server.url);
    await button.press("Enter");
    await tab.waitForURL(`${origin}/docs?page=2`);
    await tab.getByRole("heading", { name: "/docs?page=2" }).waitFor();

    // Signed out, it is over, and the page asks who one is.
    const status = await page.evaluate(async () => (await fetch("/api/v1/session", { method: "DELETE" })).status);
    expect(status).toBe(204);
    await tab.reload();
    await tab.getByRole("heading", { name: "Sign in to Prewarm" }).waitFor();
  });
});
