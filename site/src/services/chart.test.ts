import { expect, test } from "vitest";
import { block, runs, stairs, ticks, timeTicks, top } from "./chart";

test("an axis ends at a round number that has room for all", () => {
  expect([0, 1, 2, 3, 5, 7, 11, 19, 41, 380, 1_001].map((v) => top([v]))).toEqual([1, 1, 2, 4, 5, 10, 20, 20, 50, 400, 2_000]);
  expect(top([undefined, 3])).toBe(4);
  expect(top([], 4)).toBe(4);
});

test("counts have no half ticks", () => {
  expect(ticks(1)).toEqual([0, 1]);
  expect(ticks(5)).toEqual([0, 5]);
  expect(ticks(10)).toEqual([0, 5, 10]);
  expect(ticks(5, false)).toEqual([0, 2.5, 5]);
});

const scale = { x: (edge: number) => edge * 10, y: (value: number) => 100 - value };

test("where nothing is known nothing is drawn", () => {
  expect(runs([1, 2, undefined, 3])).toEqual([
    { from: 0, values: [1, 2] },
    { from: 3, values: [3] },
  ]);
  expect(stairs([1, 2, undefined, 3], scale)).toBe("M0 99V99H10V98H20M30 97V97H40");
  expect(stairs([undefined], scale)).toBe("");
  expect(block([5, 5, 5], [1, undefined, 2], scale)).toBe("M0 99V95H10V99H0ZM20 98V95H30V98H20Z");
});

test("times are round by the reader's clock, and few", () => {
  const at = (day: number, hour: number, minute = 0) => new Date(2026, 0, day, hour, minute).getTime();
  const clock = (list: { at: number }[]) => list.map((t) => new Date(t.at).getHours() * 60 + new Date(t.at).getMinutes());
  expect(clock(timeTicks(at(5, 10, 7), at(6, 10, 7), 4))).toEqual([12 * 60, 18 * 60, 0, 6 * 60]);
  expect(clock(timeTicks(at(5, 10, 7), at(5, 11, 7), 6))).toEqual([610, 620, 630, 640, 650, 660]);
  const days = timeTicks(at(5, 10), at(19, 10), 7);
  expect(days.length).toBeLessThanOrEqual(7);
  expect(days.map((t) => new Date(t.at).getHours())).toEqual(days.map(() => 0));
  expect(timeTicks(5, 5, 3)).toEqual([]);
});
