import { expect, test } from "vitest";
import { pool } from "../services/pools.fixture";
import { matches } from "./pools/PoolsView";
import { slots } from "./preset/Slots";
import { days } from "./preset/Week";
import { inside } from "./SignIn";
import { tail } from "./workspace/Logs";
import { width } from "./workspace/Timeline";

test("every word of a filter must be there", () => {
  const p = pool({ provider: "cloud", paused: "global: moving" });
  expect(matches(p, {})).toBe(true);
  expect(matches(p, { q: "WEB cloud" })).toBe(true);
  expect(matches(p, { q: "web/small moving" })).toBe(true);
  expect(matches(p, { q: "web local" })).toBe(false);
  expect(matches(p, { show: "paused" })).toBe(true);
  expect(matches(p, { show: "rollout" })).toBe(false);
  expect(matches(pool(), { show: "attention" })).toBe(false);
});

test("sign-in leads to no other server", () => {
  expect(inside("/presets/a/b?x=y")).toBe("/presets/a/b?x=y");
  for (const bad of [undefined, "", "https://evil", "//evil", "/\\evil", "/sign-in?to=/"]) expect(inside(bad)).toBe("/");
});

test("the end of the output is kept, and lines that come in parts are whole", () => {
  expect(tail(tail([""], "a\nb"), "c\r\nd\n")).toEqual(["a", "bc", "d", ""]);
  expect(tail([""], "x\n".repeat(6_000))).toHaveLength(5_000);
});

test("bars of times are by their square root, and never nothing", () => {
  expect(width(100, 100)).toBe(100);
  expect(width(25, 100)).toBe(50);
  expect(width(0, 100)).toBe(1);
  expect(width(0, 0)).toBe(0);
});

test("slots are in the order of a strip, with what is missing to desired", () => {
  const workspace = (state: string, version = 2) => ({ state, version }) as never;
  const preset = { version: 2, desired: 3 } as never;
  expect(
    slots(preset, [workspace("claimed"), workspace("ready"), workspace("ready", 1), workspace("provisioning")]).map((s) => s.kind),
  ).toEqual(["ready", "outdated", "starting", "empty", "claimed"]);
});

test("a schedule is cut at midnight", () => {
  const at = (day: number, hour: number) => new Date(2026, 0, day, hour).toISOString();
  const week = days(
    {
      template: "a",
      preset: "b",
      timezone: "UTC",
      instances: 1,
      ranges: [],
      windows: [{ from: at(5, 18), to: at(6, 6), instances: 4 }],
    },
    new Date(2026, 0, 5, 12),
  );
  expect(week).toHaveLength(7);
  expect(week[0]?.parts.map((p) => [p.from, p.to])).toEqual([[0.75, 1]]);
  expect(week[1]?.parts.map((p) => [p.from, p.to])).toEqual([[0, 0.25]]);
  expect(week[2]?.parts).toEqual([]);
});
