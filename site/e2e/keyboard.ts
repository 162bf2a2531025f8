import type { Locator, Page } from "playwright-core";
import { patience } from "./browser";

/** What hands at a mouse, or a program that is no person, would do. */
const refused = ["click", "dblclick", "tap", "hover", "check", "uncheck", "setChecked", "fill", "clear", "type", "focus", "selectOption", "dragTo", "setInputFiles", "press", "dispatchEvent"];

/** keyboardAlone makes everything else than keys an error, for the rest of this file's process. */
export function keyboardAlone(page: Page): void {
  const refuse = (of: object, name: string) =>
    Object.defineProperty(of, name, {
      configurable: true,
      value: () => {
        throw new Error(`${name} is not done by keyboard`);
      },
    });
  for (const name of refused) {
    refuse(Object.getPrototypeOf(page.locator("body")), name);
    refuse(page, name);
  }
  for (const name of ["click", "dblclick", "down", "move", "up", "wheel"]) refuse(page.mouse, name);
}

/** Keyboard is how a person without a mouse uses a page: Tab, Enter, arrows and letters. */
export class Keyboard {
  private readonly page: Page;

  constructor(page: Page) {
    this.page = page;
  }

  /** reach presses Tab until something has the focus, or Shift-Tab where that is shorter. */
  async reach(target: Locator): Promise<void> {
    await target.waitFor();
    const until = Date.now() + patience;
    let pressed = 0;
    let element = await target.elementHandle();
    for (;;) {
      const where = await element?.evaluate((to) => {
        const at = document.activeElement;
        if (at === to) return "here";
        if (!to.isConnected) return "gone";
        if (!at || at === document.body) return "after";
        return at.compareDocumentPosition(to) & Node.DOCUMENT_POSITION_PRECEDING ? "before" : "after";
      });
      if (where === "here") return;
      if (where === "gone" || !element) element = await target.elementHandle(); // it was drawn again
      if (pressed++ > 400 || Date.now() > until) throw new Error(`the keyboard does not reach ${target}`);
      await this.page.keyboard.press(where === "before" ? "Shift+Tab" : "Tab");
    }
  }

  /** enter goes to a link or a button, and presses Enter. */
  async enter(target: Locator): Promise<void> {
    await enabled(target);
    await this.reach(target);
    await this.page.keyboard.press("Enter");
  }

  /** write goes to a field, and writes in the place of what is there. */
  async write(field: Locator, text: string): Promise<void> {
    await this.reach(field);
    await this.page.keyboard.press("Control+a");
    if (text.includes("\n")) await this.page.keyboard.insertText(text); // pasted, as a file is
    else await this.page.keyboard.type(text);
  }

  /** choose goes to a list, and presses the arrows until it is at a value. */
  async choose(list: Locator, label: string): Promise<void> {
    await this.reach(list);
    for (const key of ["ArrowUp", "ArrowDown"]) {
      for (let before = ""; ; ) {
        const at = await list.evaluate((of) => (of as HTMLSelectElement).selectedOptions[0]?.label ?? "");
        if (at === label) return;
        if (at === before) break;
        before = at;
        await this.page.keyboard.press(key);
      }
    }
    throw new Error(`${list} has no ${label}`);
  }

  /** find goes to something by the search of all pages. */
  async find(text: string, first: RegExp): Promise<void> {
    await this.page.keyboard.press("Control+k");
    await this.page.getByRole("combobox", { name: /^Search/ }).waitFor();
    await this.page.keyboard.type(text);
    await this.page.getByRole("option", { selected: true, name: first }).waitFor();
    await this.page.keyboard.press("Enter");
  }
}

/** enabled waits until a button is not busy: it takes no key until then. */
async function enabled(target: Locator): Promise<void> {
  await target.waitFor();
  const until = Date.now() + patience;
  while (await target.isDisabled()) {
    if (Date.now() > until) throw new Error(`${target} stays disabled`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
