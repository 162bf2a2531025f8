import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accessible } from "./axe";
import { browsing, patience, signIn, startBrowser } from "./browser";
import { startBalancer, startReplica, startServer, type Balancer, type Server } from "./server";

let survivor: Server;
let victim: Server;
let balancer: Balancer;
let browser: Browser;
let name: string;

beforeAll(async () => {
  [survivor, browser] = await Promise.all([startServer("--tick", "1s", "--replica", "survivor", "--quickstart"), startBrowser()]);
  // Agents come to the one, the page to the other: what is typed goes from replica to replica.
  const keys = join(survivor.data, "encryption.keys"); // with which replicas know each other
  victim = await startReplica(survivor, "--tick", "1s", "--replica", "victim", "--access-url", survivor.url, "--encryption-keys-file", keys);
  balancer = await startBalancer(victim, survivor);
  const claimed = await survivor.api("POST", "/api/v1/claims", { template: "quickstart", preset: "default", wait: "90s" });
  ({ name } = claimed as { name: string });
});
afterAll(async () => {
  await browser?.close();
  await balancer?.stop();
  await victim?.stop();
  await survivor?.stop();
});

/** reads waits until the terminal has a text on its screen. */
async function reads(page: Page, text: string): Promise<void> {
  const rows = page.locator(".xterm-rows");
  await expect.poll(() => rows.innerText(), { timeout: patience, message: "the terminal" }).toContain(text);
}

async function type(page: Page, line: string): Promise<void> {
  await page.getByRole("textbox", { name: "Terminal input" }).focus();
  await page.keyboard.type(line);
  await page.keyboard.press("Enter");
}

const section = (page: Page, title: string) => page.getByRole("region", { name: title, exact: true });

test("a terminal is typed into, and is still there after a reload, and after its replica was killed", async () => {
  await browsing(browser, "terminal", async (context, problems) => {
    const page = await context.newPage();
    await signIn(page, { ...survivor, url: balancer.url });
    await page.goto(`${balancer.url}/workspaces/${name}`);
    const terminal = section(page, "Terminal");
    await terminal.getByRole("button", { name: "Open a terminal" }).press("Enter");
    await terminal.getByText("connected", { exact: true }).waitFor();
    await type(page, "cat project/README; word=kept; printf 'fo%s\\n' rty-two");
    await reads(page, "You were expected.");
    await reads(page, "forty-two");
    // Colours that a program chooses are drawn under the policy of the page, which refuses styles in text.
    await type(page, "printf '\\033[38;2;200;30;30mtrue%s\\033[0m\\n' -red");
    await reads(page, "true-red");
    const colour = page.locator(".xterm-rows span", { hasText: "true-red" }).last();
    expect(await colour.evaluate((e) => getComputedStyle(e).color)).not.toBe(
      await page.locator(".xterm-rows").evaluate((e) => getComputedStyle(e).color),
    );
    await accessible(page, "workspace-terminal");

    await page.reload();
    await terminal.getByText("connected", { exact: true }).waitFor();
    await reads(page, "forty-two"); // what was written before
    await type(page, "echo $word-over-a-reload");
    await reads(page, "kept-over-a-reload");

    await victim.kill();
    await terminal.getByText("connection lost", { exact: false }).waitFor();
    await terminal.getByText("connected", { exact: true }).waitFor();
    await type(page, "echo $word-over-a-kill");
    await reads(page, "kept-over-a-kill");
    const said = await page.locator(".xterm-rows").innerText();
    expect(said.match(/kept-over-a-reload/g), "no output comes twice").toHaveLength(1);

    // The keyboard gets out of it, and to its end.
    await page.keyboard.press("Shift+Escape");
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("End it");
    await type(page, "exit 3");
    await terminal.getByText("ended with exit code 3").waitFor();
    await terminal.getByRole("button", { name: "Close" }).click();
    await terminal.getByRole("button", { name: "Open a terminal" }).waitFor();
    // That nobody answered for a moment, and that output is had from the other replica only, browsers report as errors.
    problems.splice(0, problems.length, ...problems.filter((p) => !/net::ERR_|WebSocket connection|status of 421/.test(p)));
  });
});

test("files are uploaded, downloaded, replaced once that is confirmed, and removed; ports say how to reach them", async () => {
  await browsing(browser, "files", async (context) => {
    const page = await context.newPage();
    await signIn(page, survivor);
    await page.goto(`${survivor.url}/workspaces/${name}`);
    const files = section(page, "Files");
    await files.getByRole("button", { name: "project/", exact: true }).click();
    await files.getByRole("link", { name: "README", exact: true }).waitFor();

    await files.getByRole("button", { name: "New directory" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("über uns");
    await dialog.getByRole("button", { name: "Create" }).click();
    await files.getByRole("button", { name: "über uns/", exact: true }).click();
    await files.getByText("This directory is empty.").waitFor();

    const from = join(survivor.directory, "a b.bin");
    const content = Buffer.alloc(3_000_000, "0123456789");
    writeFileSync(from, content);
    await files.getByLabel("Files to upload").setInputFiles(from);
    const link = files.getByRole("link", { name: "a b.bin" });
    await link.waitFor();
    await files.getByText("3.0 MB").waitFor();
    const download = async () => {
      const [file] = await Promise.all([page.waitForEvent("download"), link.click()]);
      return readFileSync(await file.path());
    };
    expect((await download()).equals(content)).toBe(true);

    writeFileSync(from, "less");
    await files.getByLabel("Files to upload").setInputFiles(from);
    await dialog.getByRole("heading", { name: "Replace 1 file?" }).waitFor();
    await dialog.getByRole("button", { name: "Replace" }).click();
    await files.getByText("4 B", { exact: true }).waitFor();
    expect((await download()).toString()).toBe("less");
    await accessible(page, "workspace-files");

    await files.getByRole("navigation", { name: "Directory" }).getByRole("button", { name: "project/" }).click();
    await files.getByRole("button", { name: "Remove über uns" }).click();
    await dialog.getByText("It is removed with all that is in it.").waitFor();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await files.getByRole("button", { name: "über uns/", exact: true }).waitFor({ state: "detached" });

    // A local workspace has the ports of its machine, and so the server's own.
    const { port } = new URL(survivor.url);
    await section(page, "Ports").getByText(`prewarm port-forward ${name} ${port}`).waitFor();
  });
});

test("whose workspace it is not sees neither terminal nor files", async () => {
  await browsing(browser, "inside-others", async (context) => {
    const token = (await survivor.api("POST", "/api/v1/tokens", { name: "looks on", user: "olga", role: "template-admin", expires_in: "1h" })) as {
      secret: string;
    };
    const page = await context.newPage();
    await signIn(page, survivor, token.secret);
    await page.goto(`${survivor.url}/workspaces/${name}`);
    await section(page, "Claim").waitFor();
    expect(await section(page, "Terminal").count()).toBe(0);
    expect(await section(page, "Files").count()).toBe(0);
  });
});
