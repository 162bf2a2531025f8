import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import type { Plan, PresetHistory, PresetSize, SizeOutcome } from "../../generated/api";
import { lastLines } from "./Causes";
import { cropped, hoursOf, time } from "./History";
import { hintOf } from "./Preset";
import { acts, PlanView } from "./Resize";
import { idle, perDay, SizeView } from "./Size";

afterEach(cleanup);

const outcome = (size: string, change: Partial<SizeOutcome> = {}): SizeOutcome => ({
  size,
  hits: 95,
  hit_rate: 0.95,
  idle_hours: 240,
  mean_idle: 1,
  peak: 3,
  idle_cost: 24,
  cost_per_claim: 0.24,
  ...change,
});

const size = (change: Partial<PresetSize> = {}): PresetSize => ({
  template: "web",
  preset: "small",
  instances: 3,
  from: "2026-01-01T00:00:00Z",
  to: "2026-01-11T00:00:00Z",
  claims: 100,
  hits: 80,
  provision_seconds: 30,
  idle_cost_per_hour: 0.1,
  target: 0.99,
  busiest: 4,
  model_waits: 4,
  model_cold: 5,
  recommended: 5,
  why: "the smallest size whose replay reaches the target",
  outcomes: [outcome("5", { hit_rate: 0.992 })],
  ...change,
});

test("what idles is told for a day: in money where it has a price, else in hours", () => {
  expect(perDay(24, size())).toBeCloseTo(2.4);
  expect(perDay(24, { from: "2026-01-01T00:00:00Z", to: "2026-01-01T00:00:00Z" })).toBe(0);
  expect(idle(outcome("3"), size())).toMatch(/^2[.,]40 a day$/);
  expect(idle(outcome("3"), size({ idle_cost_per_hour: 0 }))).toBe("24 h a day");
});

test("the card has what is, what should be, and what another size would have been", () => {
  const past = { ...size(), outcomes: [outcome("3", { hit_rate: 0.8 })] };
  const other = { ...size(), outcomes: [outcome("7", { hit_rate: 0.999 })] };
  const onTry = vi.fn();
  render(<SizeView size={size()} now={past} other={other} tried={7} onTry={onTry} resize={(n) => <button>to {n}</button>} />);
  for (const rate of ["80.0 %", "99.2 %", "99.9 %"]) expect(screen.getByText(rate)).toBeTruthy();
  expect(screen.getByText("for 99 % hits")).toBeTruthy();
  expect(screen.getByRole("button", { name: "to 7" })).toBeTruthy();
  const slider = screen.getByRole("slider", { name: "The same claims, with another size" });
  fireEvent.change(slider, { target: { value: "6" } });
  expect(onTry).toHaveBeenCalledWith(6);
});

test("without claims there is nothing to play again", () => {
  render(<SizeView size={size({ claims: 0 })} now={undefined} tried={3} onTry={() => undefined} />);
  expect(screen.getByText(/nothing to play again/)).toBeTruthy();
  expect(screen.queryByText(/hits$/, { selector: "span" })).toBeNull();
});

test("a number of instances is not all where something else decides", () => {
  const preset = { scheduled: false } as never;
  const autosize = { mode: "apply", min: 1, max: 9 } as never;
  expect(hintOf(preset, size())).toBeUndefined();
  expect(hintOf({ scheduled: true } as never, size())).toContain("schedule");
  expect(hintOf(preset, size({ autosize }))).toContain("between 1 and 9");
});

const plan = (change: Partial<Plan["presets"][number]>, changes: Plan["changes"]): Plan => ({
  id: "1",
  at: "",
  expires_at: "",
  changes,
  totals: { create: 0, cancel: 0, drain: 0 },
  presets: [
    { template: "web", preset: "big", desired: 9, actual: 0, starting: 0, create: 9, cancel: 0, drain: 0, lines: [] },
    { template: "web", preset: "small", desired: 5, actual: 3, starting: 0, create: 2, cancel: 0, drain: 0, lines: [], ...change },
  ],
});

test("a plan says what is changed, and what the next pass does with this pool and no other", () => {
  const changes = [{ action: "update", kind: "preset", name: "web/small", fields: ["instances: 3 -> 5"] }] as const;
  render(<PlanView plan={plan({}, [...changes] as never)} name="web/small" />);
  expect(screen.getByText("instances: 3 → 5")).toBeTruthy();
  expect(screen.getByText("creates 2.")).toBeTruthy();
  expect(screen.queryByText(/creates 9/)).toBeNull();
  cleanup();
  render(<PlanView plan={plan({ create: 0 }, [])} name="web/small" />);
  expect(screen.getByText(/Nothing would change/)).toBeTruthy();
  expect(screen.getByText(/has nothing to do/)).toBeTruthy();
});

test("what a pass does is a sentence", () => {
  expect(acts({ create: 2, drain: 0, cancel: 0 })).toBe("creates 2");
  expect(acts({ create: 0, drain: 3, cancel: 1 })).toBe("drains 3 and cancels 1 that is being built");
  expect(acts({ create: 1, drain: 3, cancel: 2 })).toBe("creates 1, drains 3 and cancels 2 that are being built");
});

test("a young pool is not a dot at the edge, and an old one is whole", () => {
  const history = (known: number): PresetHistory => ({
    template: "web",
    preset: "small",
    from: "0",
    to: "",
    step_seconds: 300,
    points: Array.from({ length: 289 }, (_, i) => ({ at: String(i), ...(i >= 289 - known && { desired: 3, ready: 3 }) })),
  });
  expect(cropped(history(1)).points).toHaveLength(12);
  expect(cropped(history(1)).from).toBe("277");
  expect(cropped(history(100)).points).toHaveLength(101);
  expect(cropped(history(289)).points).toHaveLength(289);
  expect(cropped(history(0)).points).toHaveLength(289);
});

test("ranges are hours, and axes of times end at round ones", () => {
  expect([hoursOf(undefined), hoursOf("7d"), hoursOf("14d")]).toEqual([24, 168, 336]);
  expect([0, 430, 7_300, 61_000, 4_000_000].map(time)).toEqual([1_000, 500, 10_000, 120_000, 7_200_000]);
});

test("the end of a log is its last lines, and not what is empty after them", () => {
  expect(lastLines("a\nb\nc\n\n", 2)).toBe("b\nc");
  expect(lastLines("a", 20)).toBe("a");
});
