import { expect, test } from "vitest";
import { pool } from "./pools.fixture";
import { attention, merge, slotsOf, warm } from "./pools";

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

test("attention is the worst that is wrong", () => {
  expect(attention(pool())).toBeUndefined();
  expect(attention(pool({ slots: { ready: 0, starting: 3 } }))).toBeUndefined();
  const cases: [Partial<Parameters<typeof pool>[0]>, boolean, string][] = [
    [{ error: "no such provider", failures: 3 }, true, "no such provider"],
    [{ rollout: { phase: "stopped", ready: 0, desired: 3, outdated: 3, reason: "late" } }, true, "Rollout stopped: late"],
    [{ failures: 1, fault: "no disk", paused: "preset: x" }, true, "A create failed: no disk"],
    [{ failures: 4, fault: "no disk" }, true, "4 times in a row: no disk"],
    [{ paused: "global: moving" }, false, "Paused: moving"],
    [{ waiting: 2, slots: { ready: 0, starting: 3 } }, false, "2 claims wait"],
    [{ slots: { ready: 0 }, reasons: ["maximum"] }, true, "nothing is being built: maximum"],
    [{ slots: { failed: 1 } }, false, "kept for inspection"],
  ];
  for (const [change, bad, text] of cases) {
    const why = attention(pool(change));
    expect(why?.text).toContain(text);
    expect(why?.bad).toBe(bad);
  }
});

test("what was read anew takes the place of what was known, and what is gone goes", () => {
  const known = [pool({ id: "a", preset: "a" }), pool({ id: "b", preset: "b" }), pool({ id: "c", preset: "c" })];
  const fresh = [pool({ id: "b", preset: "b", waiting: 7 }), pool({ id: "bb", preset: "bb" })];
  const merged = merge(known, new Set(["b", "bb", "c"]), fresh);
  expect(merged.map((p) => p.id)).toEqual(["a", "b", "bb"]);
  expect(merged[0]).toBe(known[0]);
  expect(merged[1]?.waiting).toBe(7);
});
