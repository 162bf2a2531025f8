// @vitest-environment node
// The words of the page keep the rules of scripts/rules: plain words, and sentences of at most 25. Vite's own parser reads
// the source, because only a parser knows a text between tags from a comparison or a type.
import { readdirSync, readFileSync } from "node:fs";
import { parseSync } from "vite";
import { expect, test } from "vitest";

const rules = new URL("../../scripts/rules/", import.meta.url);
const read = <T>(file: string): T => JSON.parse(readFileSync(new URL(file, rules), "utf8")) as T;

/** Node has what is needed of the parser's nodes. */
interface Node {
  type: string;
  start: number;
  name?: unknown;
  value?: unknown;
  operator?: string;
  openingElement?: Node;
  children?: Node[];
  expression?: Node;
  left?: Node;
  right?: Node;
  quasis?: { value: { cooked: string } }[];
}
interface Text {
  at: number;
  text: string;
}

/** block are elements that begin a text of their own; others stand in the middle of a sentence. */
const block = /^(p|div|section|article|header|footer|h\d|ul|ol|li|dl|dt|dd|table|thead|tbody|tr|th|td|label|legend|option|button)$/;
/** looks are attributes that hold no text for people. */
const looks = new Set(["className", "d", "style"]);

const nameOf = (n?: Node) => String((n?.name as { name?: unknown } | undefined)?.name ?? "");
const tag = (n: Node) => nameOf(n.openingElement);
const children = (n: Node) => n.children ?? [];
const isElement = (n: Node) => n.type === "JSXElement" || n.type === "JSXFragment";
const speaks = (n: Node) => children(n).some((c) => c.type === "JSXText" && String(c.value).trim() !== "");

/** inner is what an element says. Code, a value and a component are one word each. */
function inner(n: Node): string {
  return children(n)
    .map((c) => {
      if (c.type === "JSXText") return String(c.value);
      if (!isElement(c)) return literal(c.expression) ?? "X";
      if (block.test(tag(c))) return "\n\n";
      return tag(c) === "code" || children(c).length === 0 ? "X" : inner(c);
    })
    .join("");
}

/** literal is a text in the code, also one that is put together, or undefined. */
function literal(n?: Node): string | undefined {
  if (n === undefined) return undefined;
  if (n.type === "JSXEmptyExpression") return "";
  if (n.type === "Literal" && typeof n.value === "string") return n.value;
  if (n.type === "TemplateLiteral") return n.quasis?.map((q) => q.value.cooked).join("X");
  if (n.type === "BinaryExpression" && n.operator === "+") {
    const [left, right] = [literal(n.left), literal(n.right)];
    return left === undefined && right === undefined ? undefined : (left ?? "X") + (right ?? "X");
  }
  return undefined;
}

/** texts are those that source shows to people. */
function texts(file: string, source: string): Text[] {
  const found: Text[] = [];
  const walk = (n: Node, said: boolean) => {
    if (n.type === "ImportDeclaration" || n.type.startsWith("TS")) {
      if (n.expression) walk(n.expression, false);
      return;
    }
    if (n.type === "JSXAttribute" && looks.has(nameOf(n))) return;
    const text = literal(n);
    if (text !== undefined) found.push({ at: n.start, text });
    let below = false;
    if (isElement(n)) {
      const own = !said || block.test(tag(n));
      if (own && speaks(n)) found.push({ at: n.start, text: inner(n) });
      below = !own || speaks(n);
    }
    for (const child of Object.values(n).flat() as (Partial<Node> | null)[]) {
      if (typeof child?.type !== "string") continue;
      const part = text !== undefined && literal(child as Node) !== undefined;
      if (!part) walk(child as Node, below && isElement(child as Node));
    }
  };
  const { program, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`);
  walk(program as unknown as Node, false);
  return found;
}

/** sentences counts the words of each, as scripts/rules/sentences.go does and says. */
function sentences(text: string): number[] {
  const all: number[] = [];
  for (const paragraph of text.split(/\n\s*\n/)) {
    const words = paragraph.match(/\S+/g) ?? [];
    let count = 0;
    words.forEach((word, i) => {
      if (/[\p{L}\p{Nd}]/u.test(word)) count++;
      const next = words[i + 1];
      const stop = /[.?!…]["'”’)\]*_]*$/.test(word) && !/^\W*(?:e\.g|i\.e|etc|vs|cf|approx|incl)\.\W*$/i.test(word);
      if (next === undefined || (stop && !/^["'“‘([*_]*\p{Ll}/u.test(next))) {
        all.push(count);
        count = 0;
      }
    });
  }
  return all;
}

const plain = read<{ words: string; instead: string }[]>("words.json").map(({ words, instead }) => ({
  pattern: new RegExp(`\\b${words.replaceAll(" ", "\\s+")}\\b`, "i"),
  instead,
}));

/** broken are the texts of a file that break a rule. */
function broken(file: string, source: string): string[] {
  return texts(file, source)
    .filter(({ text }) => text.includes(" "))
    .flatMap(({ at, text }) => {
      const place = `${file}:${source.slice(0, at).split("\n").length}`;
      const short = text.trim().replace(/\s+/g, " ");
      const long = sentences(text).filter((n) => n > 25);
      const listed = plain.filter((p) => p.pattern.test(short));
      return [
        ...long.map((n) => `${place}: ${n} words: ${short.slice(0, 60)}`),
        ...listed.map((p) => `${place}: ${short.slice(0, 60)}: write ${p.instead}`),
      ];
    });
}

test("a sentence is counted as scripts/rules counts it", () => {
  for (const { text, words } of read<{ text: string; words: number[] }[]>("testdata/sentences.json")) {
    expect(sentences(text), text).toEqual(words);
  }
});

test("texts are what people read, as a whole", () => {
  const source = [
    "import x from 'not this';",
    "const wide = (a < b) as T<'nor this'>;",
    "const t = <p className='nor this' title='this one'>",
    "  Hello <b>{name}</b>, run <code>a b c</code>. {n > 1 ? `${n} are here` : 'one ' + 'is here'}",
    "  <ul><li>An item</li></ul>",
    "</p>;",
  ].join("\n");
  expect(texts("a.tsx", source).map((t) => t.text.trim().replace(/\s+/g, " ")).sort()).toEqual(
    ["An item", "Hello X, run X. X", "one is here", "this one", "X are here"].sort(),
  );
  const long = `${"word ".repeat(26)}.`;
  expect(broken("a.tsx", `const a = <p>${long}</p>;`)).toHaveLength(1);
  expect(broken("a.tsx", `const a = "made anew, told by whoever";`)).toHaveLength(3);
  expect(broken("a.tsx", `const a = <button>Make it</button>; const b = "make it short";`)).toHaveLength(1);
});

test("the page uses plain words and short sentences", () => {
  const root = new URL("./", import.meta.url);
  const files = readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((f) => /\.tsx?$/.test(f) && !/\.(test|fixture)\.|^generated\//.test(f));
  expect(files.length).toBeGreaterThan(50);
  expect(files.flatMap((f) => broken(f, readFileSync(new URL(f, root), "utf8")))).toEqual([]);
});
