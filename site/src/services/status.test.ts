import { expect, test } from "vitest";
import { pool } from "./pools.fixture";
import { blocked, statusOf, statusOfPool, troubled, type Facts } from "./status";

const facts = (change: Partial<Facts> = {}): Facts => ({
  pool: true,
  desired: 3,
  ready: 3,
  claimable: 3,
  starting: 0,
  failures: 0,
  ...change,
});

test("a healthy rollout says how many are claimable, and a stopped one that it stopped", () => {
  expect(statusOf(facts({ ready: 1, claimable: 4, rollout: { phase: "progressing" } })).text).toBe("Rolling out: 4 claimable");
  expect(statusOf(facts({ rollout: { phase: "stopped" } }))).toMatchObject({ text: "Rollout stopped", bad: true });
});

test("a full pool is warm, also while it is paused", () => {
  expect(statusOf(facts()).text).toBe("Warm");
  expect(statusOf(facts({ paused: "global: moving" })).text).toBe("Warm");
  expect(statusOf(facts({ paused: "global: moving", ready: 1, claimable: 1 })).text).toBe("Paused: 1 of 3 ready");
});

test("what fails, what is empty and what fills are told apart", () => {
  expect(statusOf(facts({ error: "no provider" }))).toMatchObject({ text: "Failed", bad: true });
  expect(statusOf(facts({ failures: 2, ready: 0, claimable: 0 })).text).toBe("Creates fail");
  expect(statusOf(facts({ ready: 0, claimable: 0 })).text).toBe("Empty");
  expect(statusOf(facts({ ready: 1, claimable: 1, starting: 2 })).text).toBe("Filling: 1 of 3 ready");
  expect(statusOf(facts({ pool: false })).text).toBe("No pool");
  expect(statusOfPool(pool({ slots: { ready: 2, outdated: 1 }, rollout: { phase: "progressing", ready: 2, desired: 3, outdated: 1 } })).text).toBe(
    "Rolling out: 3 claimable",
  );
});

test("a claim that cannot be served has a reason, one that is being built has none", () => {
  const preset = (change: object) => ({ eligible: 0, starting: 0, ...change }) as never;
  expect(blocked(preset({}), 2)).toContain("creates fail");
  expect(blocked(preset({ paused: "global: moving" }), 0)).toContain("paused (global: moving)");
  expect(blocked(preset({ paused: "global: moving", starting: 1 }), 0)).toBeUndefined();
  expect(blocked(preset({ eligible: 1 }), 2)).toBeUndefined();
});

test("a warm pool under a global pause needs no attention; an empty one does", () => {
  const attention = { bad: false, code: "paused", text: "Paused: global: moving" };
  expect(troubled(pool({ attention, paused: "global: moving", paused_scope: "global" }))).toBe(false);
  expect(troubled(pool({ attention, paused: "global: moving", paused_scope: "global", slots: { ready: 0 } }))).toBe(true);
  expect(troubled(pool({ attention, paused: "preset: moving", paused_scope: "preset" }))).toBe(true);
});
