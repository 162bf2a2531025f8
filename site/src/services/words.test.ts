import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { bareTime, clock, instant, minutes, span, zone } from "./time";
import { counted, verb } from "./words";

const source = join(import.meta.dirname, "..");

/** The files of the pages, without their tests and what is generated. */
const files = readdirSync(source, { recursive: true, encoding: "utf8" })
  .filter((f) => /\.tsx?$/.test(f) && !/\.test\.|fixture|generated/.test(f))
  .map((f) => ({ name: f, text: readFileSync(join(source, f), "utf8") }));

test("one is singular, and everything else plural", () => {
  expect([0, 1, 2, 1_000].map((n) => counted(n, "claim"))).toEqual(["0 claims", "1 claim", "2 claims", "1,000 claims"]);
  expect([1, 2].map((n) => counted(n, "entry", "entries"))).toEqual(["1 entry", "2 entries"]);
  expect([1, 2].map((n) => verb(n, "is", "are"))).toEqual(["is", "are"]);
});

/** A number before a plural that is written out, in text of JSX or in a template. */
const nouns =
  "claims|jobs|pools|presets|prebuilds|workspaces|times|entries|runners|replicas|versions|tokens|users|days|hours|minutes|variables|values|failures|machines|templates|errors|changes|rows|cases|builds|forges|discrepancies|others";
const written = new RegExp(String.raw`\{([^{}]+)\} (?:\w+ )?(?:${nouns})\b(?!=)`);

test("no text writes a plural after a number that may be one", () => {
  expect(written.test("{n} claims")).toBe(true);
  expect(written.test("`${list.length} unclaimed prebuilds`")).toBe(true);
  const wrong = files.flatMap(({ name, text }) =>
    text
      .split("\n")
      // A line that asks whether it is one, has a list that is cut (more than a few) or names a thing and not a number.
      .filter((line) => written.test(line) && !/=== 1 \?|names\.length - 3/.test(line) && !/^\s*(\/\/|\/?\*|import|export|for|const \{)/.test(line))
      .map((line) => `${name}: ${line.trim()}`),
  );
  expect(wrong).toEqual([]);
});

test("every clock time says its zone", () => {
  const at = "2026-03-01T12:34:56Z";
  const now = zone(new Date(at));
  expect(now).not.toBe("");
  for (const said of [instant(at), minutes(at), clock(at, Date.parse(at)), clock(at, 0), span(new Date(at), new Date(at))]) expect(said).toContain(now);
  expect(bareTime(new Date(at))).not.toContain(now); // whose heading says it
  // Nobody else writes times: what does would leave the zone out.
  const own = ["services/time.ts", "services/chart.ts", "routes/preset/Week.tsx"]; // the latter write names of days
  const others = files.filter((f) => /toLocale(Time|Date)String|DateTimeFormat|dateStyle|timeStyle/.test(f.text) && !own.includes(f.name));
  expect(others.map((f) => f.name)).toEqual([]);
  for (const name of own.slice(1)) expect(files.find((f) => f.name === name)?.text).not.toMatch(/toLocaleTimeString|hour:/);
});
