import { mkdirSync } from "node:fs";
import { join } from "node:path";
import axe from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { patience } from "./browser";

/** PREWARM_SCREENSHOTS is a folder that pictures of all pages are left in. */
export const pictures = process.env["PREWARM_SCREENSHOTS"];

/** painted waits until the page is drawn in those colours: axe would read some of the old ones otherwise. */
export async function painted(page: Page, colorScheme: string): Promise<void> {
  await page.evaluate(
    (scheme) =>
      new Promise<void>((drawn) => {
        const look = () => {
          if (!matchMedia(`(prefers-color-scheme: ${scheme})`).matches) setTimeout(look, 10);
          else requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(() => drawn()), 50));
        };
        look();
      }),
    colorScheme,
  );
}

/** byColour are the rules whose outcome is another in other colours; the rest saw the same page in light ones. */
const byColour = ["color-contrast", "link-in-text-block"];

/** accessible has axe look at what is on the screen, at two widths, light and dark; nothing may be wider than the screen. */
export async function accessible(page: Page, name: string, widths: readonly number[] = [1440, 390]): Promise<void> {
  const before = page.viewportSize();
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe.source);
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 });
    await expect
      .poll(() => page.evaluate(() => document.documentElement.scrollWidth), { timeout: patience, message: `${name} at ${width} px is as wide as` })
      .toBeLessThanOrEqual(width);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await painted(page, colorScheme);
      const rules = colorScheme === "dark" ? byColour : undefined;
      const found = await page.evaluate(
        (only) => (window as unknown as { axe: typeof axe }).axe.run({ resultTypes: ["violations"], ...(only && { runOnly: only }) }),
        rules,
      );
      expect(found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" ")}`), `${name} at ${width} px, ${colorScheme}`).toEqual([]);
      if (!pictures) continue;
      mkdirSync(pictures, { recursive: true });
      await page.screenshot({ path: join(pictures, `${name}-${width}-${colorScheme}.png`), fullPage: true });
    }
  }
  if (before) await page.setViewportSize(before);
}
