import { expect, test } from "vitest";
import { pool } from "./pools.fixture";
import { merge, slotsOf, warm } from "./pools";

test("a strip has a cell for each workspace, and one for each that is missing", () => {
  expect(slotsOf(pool({ desired: 5, slots: { ready: 2, starting: 1, claimed: 4 } }))).toEqual({
    ready: 2,
    outdated: 0,
    starting: 1,
    empty: 2,
    draining: 0,
    failed: 0,
    claimed: 4,
  });
  expect(slotsOf(pool({ desired: 1, slots: { ready: 3 } })).empty).toBe(0);
});

test("outdated ones that are kept make a pool warm", () => {
  expect(warm(pool())).toBe(true);
  expect(warm(pool({ slots: { ready: 2 } }))).toBe(false);
  expect(warm(pool({ slots: { ready: 2, outdated: 1 } }))).toBe(true);
});

test("what was read anew takes the place of what was known, and what is gone goes", () => {
  const known = [pool({ id: "a", preset: "a" }), pool({ id: "b", preset: "b" }), pool({ id: "c", preset: "c" })];
  const fresh = [pool({ id: "b", preset: "b", waiting: 7 }), pool({ id: "bb", preset: "bb" })];
  const merged = merge(known, new Set(["b", "bb", "c"]), fresh);
  expect(merged.map((p) => p.id)).toEqual(["a", "b", "bb"]);
  expect(merged[0]).toBe(known[0]);
  expect(merged[1]?.waiting).toBe(7);
});
