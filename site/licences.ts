import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Plugin } from "vite";

/** What is in the bundle without a module of its own that would say so: its base styles, and what loads chunks. */
const unseen = ["tailwindcss", "vite"];

interface Part {
  /** Name and version. */
  name: string;
  text: string;
}

/**
 * licences writes licences.txt: everything that the binary contains parts of, in its pages or in itself, and its licence as
 * it comes with it. What comes without one fails the build.
 */
export function licences(site: string): Plugin {
  return {
    name: "licences",
    apply: "build",
    generateBundle(_, bundle) {
      const directories = new Set(unseen.map((name) => join(site, "node_modules", name)));
      for (const file of Object.values(bundle)) {
        if (file.type !== "chunk") continue;
        for (const [id, module] of Object.entries(file.modules)) {
          if (module.renderedLength > 0 && id.includes("/node_modules/")) directories.add(packageOf(id));
        }
      }
      const source = list("Its pages contain", [...directories].map(packagePart)) + list("The program contains", modules(site));
      this.emitFile({ type: "asset", fileName: "licences.txt", source });
    },
  };
}

/** packageOf is the directory of the package that a module is of: the nearest whose package.json has a version. */
function packageOf(id: string): string {
  for (let directory = dirname(id.replace(/^\0/, "").replace(/\?.*$/, "")); ; directory = dirname(directory)) {
    if (directory === dirname(directory)) throw new Error(`licences: ${id} is of no package`);
    const manifest = join(directory, "package.json");
    if (existsSync(manifest) && "version" in (JSON.parse(readFileSync(manifest, "utf8")) as object)) return directory;
  }
}

function packagePart(directory: string): Part {
  const { name, version } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8")) as {
    name: string;
    version: string;
  };
  // Behind its own, vite has the licences of what only it runs on.
  const [own = ""] = textOf(name, directory).split("\n# Licenses of bundled dependencies");
  return { name: `${name} ${version}`, text: own.trim() };
}

/** modules are the Go modules that packages of the binary are of, and the language's own library. */
function modules(site: string): Part[] {
  const go = (...args: string[]) => execFileSync("go", args, { cwd: dirname(site), encoding: "utf8" }).trim();
  const format = '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}';
  const lines = new Set(go("list", "-deps", "-f", format, "./cmd/prewarm").split("\n").filter(Boolean));
  const parts = [...lines].map((line) => {
    const [name = "", directory = ""] = line.split("\t");
    return { name, text: textOf(name, directory) };
  });
  return [{ name: `Go ${go("env", "GOVERSION")}`, text: textOf("Go", go("env", "GOROOT")) }, ...parts];
}

/** textOf is the licence in a directory, and the notice that some ask to pass on with it. */
function textOf(name: string, directory: string): string {
  const of = (pattern: RegExp) =>
    readdirSync(directory)
      .filter((file) => pattern.test(file))
      .map((file) => readFileSync(join(directory, file), "utf8").replaceAll("\r\n", "\n").trim());
  const [text] = of(/^(licen[cs]e|copying)(\.(md|txt))?$/i);
  if (!text) throw new Error(`licences: ${name} is shipped, and there is no licence in ${directory}`);
  return [text, ...of(/^notice(\.(md|txt))?$/i)].join("\n\n");
}

const line = `\n${"-".repeat(80)}\n`;

/** list says what there is, and then each text once, below everything that it is of. */
function list(title: string, parts: readonly Part[]): string {
  const sorted = [...parts].sort((a, b) => (a.name < b.name ? -1 : 1));
  const texts = new Map<string, string[]>();
  for (const { name, text } of sorted) texts.set(text, [...(texts.get(text) ?? []), name]);
  const names = sorted.map((p) => `  ${p.name}`).join("\n");
  const bodies = [...texts].map(([text, of]) => `${line}${of.join("\n")}${line}\n${text}\n`);
  return `${title} parts of these, under the licences below.\n\n${names}\n${bodies.join("")}\n\n`;
}
