import { expect, test } from "vitest";
import { local } from "../../components/Filters";
import { changesOf } from "./changes";

test("of before and after only what differs is shown", () => {
  expect(changesOf({ maximum: null, per: 3, x: 1 }, { maximum: 9, per: 3, x: null })).toEqual([
    { name: "maximum", after: "9" },
    { name: "x", before: "1" },
  ]);
  expect(changesOf(undefined, { prefix: "check-" })).toEqual([{ name: "prefix", after: "check-" }]);
  expect(changesOf(null, null)).toEqual([]);
  expect(changesOf("a", "b")).toEqual([{ name: "value", before: "a", after: "b" }]);
  expect(changesOf({ spec: { a: 1 } }, { spec: { a: 2 } })).toEqual([{ name: "spec", before: '{"a":1}', after: '{"a":2}' }]);
  expect(changesOf({}, { long: "x".repeat(9_000) })[0]?.after).toHaveLength(2_001);
});

test("a time of the URL is shown in the time of the browser, and is the same when it comes back", () => {
  const at = "2026-03-01T12:34:00.000Z";
  expect(new Date(local(at)).toISOString()).toBe(at);
  expect(local(undefined)).toBe("");
  expect(local("yesterday")).toBe("");
});
