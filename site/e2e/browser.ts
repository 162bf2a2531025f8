import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from "playwright-core";
import { expect } from "vitest";
import { repository, type Server } from "./server";

const results = join(repository, "build/e2e");

/** Traces cost about a fifth of the time of the tests, so they are made when they are asked for. */
const trace = process.env["PREWARM_TRACE"] !== undefined;

/** Longest time for anything to be there, in milliseconds. It ends early when it is. */
export const patience = 90_000;

export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env["PREWARM_CHROMIUM"] ?? "/usr/bin/chromium-headless-shell",
    args: [
      "--no-sandbox",
      "--disable-quic",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--disable-dev-shm-usage",
      "--no-first-run",
    ],
  });
}

/**
 * browsing runs a test in a browser profile of its own. Where it fails, a picture is left in build/e2e,
 * and with PREWARM_TRACE=1 a trace (`npx playwright-core show-trace FILE`). Errors in the console, and what the content security policy refused, fail it too.
 */
export async function browsing(
  browser: Browser,
  name: string,
  test: (context: BrowserContext, problems: string[]) => Promise<void>,
  options: BrowserContextOptions = {},
): Promise<void> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(patience);
  context.setDefaultNavigationTimeout(patience);
  const problems: string[] = [];
  context.on("console", (message) => {
    if (message.type() === "error") problems.push(message.text());
  });
  context.on("weberror", (error) => problems.push(error.error().message));
  if (trace) await context.tracing.start({ screenshots: true, snapshots: true });
  try {
    await test(context, problems);
    // That a session is over, that a provider has no output, or is in use, are answers: browsers report them as errors. So they
    // do where an interface of the machine comes or goes, as with containers: the page asks again.
    expect(problems.filter((p) => !/status of (401|409|501)|ERR_NETWORK_CHANGED/.test(p))).toEqual([]);
  } catch (e) {
    mkdirSync(results, { recursive: true });
    if (trace) await context.tracing.stop({ path: join(results, `${name}.zip`) });
    for (const [i, page] of context.pages().entries()) {
      await page.screenshot({ path: join(results, `${name}-${i}.png`) }).catch(() => undefined);
    }
    throw e;
  } finally {
    await context.close();
  }
}

/** signIn gives the whole profile a session, by the form. */
export async function signIn(page: Page, server: Server, token = server.token): Promise<void> {
  await page.goto(`${server.url}/sign-in`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1, name: "Pools" }).waitFor();
}

/** live waits until a page hears of changes as they happen. */
export async function live(page: Page): Promise<void> {
  await page.getByText("Live", { exact: true }).waitFor({ state: "attached" });
}
