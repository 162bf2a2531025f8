import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browsing, signIn, startBrowser } from "./browser";
import { repository, startServer, type Server } from "./server";

/** What a browser that has nothing yet fetches for a page, in bytes, compressed with gzip. */
const most = 300_000;

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer("--quickstart"), startBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

test("a first load stays small, on whatever page it is", async () => {
  await browsing(browser, "bundle", async (context) => {
    await signIn(await context.newPage(), server);
    const session = await context.storageState();
    const loads: Record<string, number> = {};
    const paths = ["/sign-in", "/", "/presets/quickstart/default", "/workspaces/any/ports/3000", "/welcome", "/mine", "/claims", "/jobs", "/templates", "/templates/quickstart", "/apply"];
    for (const path of paths) {
      await browsing(
        browser,
        "bundle-page",
        async (fresh) => {
          const page = await fresh.newPage();
          const files = new Set<string>();
          page.on("request", (request) => {
            const { pathname } = new URL(request.url());
            if (!pathname.startsWith("/api/")) files.add(pathname);
          });
          await page.goto(server.url + path);
          await page.getByRole("heading", { level: 1 }).waitFor();
          await page.waitForLoadState("networkidle");
          expect([...files].some((f) => f.endsWith(".js"))).toBe(true);
          loads[path] = (await Promise.all([...files].map(weight))).reduce((sum, n) => sum + n, 0);
          expect(loads[path], path).toBeLessThan(most);
        },
        { storageState: session },
      );
    }
    console.table(loads);
  });
});

/** weight is what the binary sends of a file to who takes gzip. fetch unpacks it, so that its length is what is said. */
async function weight(path: string): Promise<number> {
  const response = await fetch(server.url + path, { headers: { "Accept-Encoding": "gzip", Accept: "text/html,*/*" } });
  expect(response.status, path).toBe(200);
  await response.arrayBuffer();
  return Number(response.headers.get("Content-Length"));
}

test("the binary serves the licences of all that it is made of", async () => {
  const manifest = JSON.parse(readFileSync(join(repository, "site/package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  const response = await fetch(`${server.url}/licences.txt`);
  expect(response.headers.get("Content-Type")).toBe("text/plain; charset=utf-8");
  const text = await response.text();
  const sections = text.split("-".repeat(80));
  /** Each heading stands between two lines, and the text that it is of behind the second. */
  const licenceOf = (name: string) => {
    const at = sections.findIndex((s) => s.split("\n").includes(name));
    return at < 0 ? "" : sections[at + 1];
  };
  for (const [name, version] of Object.entries(manifest.dependencies)) {
    expect(licenceOf(`${name} ${version}`), `the licence of ${name}`).toMatch(/copyright/i);
  }
  const required = readFileSync(join(repository, "go.mod"), "utf8").matchAll(/^\t(github\.com\/jackc\/pgx\/v5|github\.com\/spf13\/cobra) (\S+)$/gm);
  const modules = [...required].map(([, name, version]) => `${name} ${version}`);
  expect(modules).toHaveLength(2);
  for (const name of modules) expect(licenceOf(name), `the licence of ${name}`).toMatch(/copyright|apache/i);
  // Not only those that are named there, but what they bring along.
  for (const name of ["scheduler", "@tanstack/router-core", "@tanstack/query-core", "tailwindcss"]) expect(text).toContain(`  ${name} `);
  expect(text, "what only tests and builds use is not shipped").not.toMatch(/ {2}(axe-core|playwright-core|vitest) /);

  await browsing(browser, "licences", async (context, problems) => {
    const page = await context.newPage();
    await signIn(page, server);
    await page.getByRole("link", { name: "Licences" }).click();
    await page.getByText("under the licences below").waitFor();
    problems.splice(0, problems.length, ...problems.filter((p) => !p.includes("404"))); // a text has no icon
  });
});
