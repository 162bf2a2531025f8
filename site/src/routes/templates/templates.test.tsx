import { cleanup, render, screen, within } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Plan, PresetRollout } from "../../generated/api";
import { Problem } from "../../services/api";
import { pool } from "../../services/pools.fixture";
import { Diff } from "./Diff";
import { changed, compare, fold, pairs } from "./diff";
import { Refusal } from "./PlanView";
import { busy, deeds, place, subject } from "./plan";
import { unclaimed } from "./RollBack";
import { listed, phaseOf, slotsOf, stops, versionsOf } from "./RolloutView";
import { rolling, sum } from "./TemplatesView";
import { between, counts } from "./Versions";

afterEach(cleanup);

const text = (lines: readonly (string | number)[]) => `${lines.join("\n")}\n`;
const twenty = Array.from({ length: 20 }, (_, i) => i);

test("a comparison numbers the lines of both sides", () => {
  expect(compare("a\nb\nc\n", "a\nB\nc\nd\n")).toEqual([
    { kind: "same", before: 1, after: 1, text: "a" },
    { kind: "removed", before: 2, text: "b" },
    { kind: "added", after: 2, text: "B" },
    { kind: "same", before: 3, after: 3, text: "c" },
    { kind: "added", after: 4, text: "d" },
  ]);
  expect(compare("", "").filter((l) => l.kind !== "same")).toEqual([]);
});

test("what is the same is folded but around a change, and no line is lost", () => {
  const lines = compare(text(twenty), text(twenty.map((n) => (n === 10 ? "ten" : n))));
  const rows = fold(lines, 2);
  expect(rows.map((r) => (r.kind === "fold" ? -r.lines : r.text))).toEqual([-8, "8", "9", "10", "ten", "11", "12", -7]);
  expect(rows.reduce((n, r) => n + (r.kind === "fold" ? r.lines : 1), 0)).toBe(lines.length);
  // A single line takes no more room than the fold that would stand for it.
  expect(fold(compare("a\nb\nc\n", "a\nb\nC\n"), 1).every((r) => r.kind !== "fold")).toBe(true);
});

test("side by side, what was removed stands beside what took its place", () => {
  const rows = pairs(compare("a\nx\ny\nb\n", "a\nX\nb\nc\n"));
  expect(rows.map((r) => (r.kind === "fold" ? r : [r.before?.text, r.after?.text]))).toEqual([
    ["a", "a"],
    ["x", "X"],
    ["y", undefined],
    ["b", "b"],
    [undefined, "c"],
  ]);
});

test("of two lines only what differs is marked, and letters are not counted twice", () => {
  expect(changed("image: go:1.25", "image: go:1.26")).toEqual([13, 0]);
  expect(changed("aaa", "aaaa")).toEqual([3, 0]);
  expect(changed("", "x")).toEqual([0, 0]);
});

test("a diff says in words how much it is, and which line is on which side", () => {
  render(<Diff before={"cpu: 1\nram: 2\n"} after={"cpu: 4\nram: 2\n"} names={["version 1", "version 2"]} />);
  const figure = screen.getByRole("figure", { name: "version 1 compared with version 2: 1 lines removed, 1 added" });
  expect(within(figure).getAllByText("removed:", { exact: false }).length).toBeGreaterThan(0);
  expect(within(figure).getAllByText("added:", { exact: false }).length).toBeGreaterThan(0);
  cleanup();
  render(<Diff before={"same\n"} after={"same\n"} names={["version 1", "version 3"]} />);
  expect(screen.getByText("They are the same, line by line.")).toBeTruthy();
});

test("the active version is compared with the one before it unless others are chosen", () => {
  const version = (number: number, active = false) => ({ number, active }) as never;
  const all = [version(4), version(3, true), version(2), version(1)];
  expect(between(all, {})).toEqual({ from: 2, to: 3 });
  expect(between(all, { from: 1 })).toEqual({ from: 1, to: 3 });
  expect(between(all, { from: 3, to: 4 })).toEqual({ from: 3, to: 4 });
  expect(between([version(2), version(1, true)], {})).toEqual({ from: 2, to: 1 });
  expect(between([version(1, true)], {})).toEqual({ from: undefined, to: 1 });
  expect(counts({ unclaimed: 3, claimed: 1 })).toBe("3 unclaimed, 1 claimed");
  expect(counts({ unclaimed: 0, claimed: 0 })).toBe("no workspaces");
});

const none = { ready: 0, outdated: 0, starting: 0, leaving: 0, failed: 0, claimed: 0 };

function preset(change: Partial<PresetRollout> = {}): PresetRollout {
  return {
    preset: "small",
    pool: true,
    desired: 3,
    proven: false,
    versions: [
      { version: 2, active: true, slots: { ...none, starting: 1 } },
      { version: 1, active: false, slots: { ...none, outdated: 3, claimed: 2 } },
    ],
    ...change,
  };
}

test("a rollout shows what is missing of the new version, and nothing as missing of the old", () => {
  const p = preset();
  expect(p.versions.map((v) => slotsOf(p, v).empty)).toEqual([2, 0]);
  expect(versionsOf(preset({ versions: [] }), 5).map((v) => [v.version, v.active])).toEqual([[5, true]]);
  expect(versionsOf(p, 2)).toBe(p.versions);
});

test("a rollout that stopped is worse than one that goes on, and reasons are told once", () => {
  const going = preset({ rollout: { phase: "progressing", ready: 1, desired: 3, outdated: 2 } });
  const stopped = (name: string, reason: string) =>
    preset({ preset: name, rollout: { phase: "stopped", ready: 0, desired: 3, outdated: 3, reason } });
  expect(phaseOf([preset()])).toBeUndefined();
  expect(phaseOf([going, preset()])).toBe("progressing");
  expect(phaseOf([going, stopped("a", "late")])).toBe("stopped");
  expect(stops([stopped("a", "late"), going, stopped("b", "late"), stopped("c", "no disk")])).toEqual([
    { reason: "late", presets: ["a", "b"] },
    { reason: "no disk", presets: ["c"] },
  ]);
  expect([["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d", "e"]].map(listed)).toEqual([
    "a",
    "a and b",
    "a, b and c",
    "a, b, c and 2 others",
  ]);
  expect(rolling([pool(), pool({ rollout: { phase: "progressing", ready: 1, desired: 3, outdated: 2 } })])).toBe("progressing");
  expect(sum([pool({ slots: { ready: 1 } }), pool({ slots: { claimed: 2 } })])).toMatchObject({ ready: 4, empty: 2, claimed: 2 });
});

test("what would go with a template is what nobody has", () => {
  const rollout = { template: "t", version: 2, progress_deadline: "1h", presets: [preset(), preset()] };
  expect(unclaimed(rollout)).toBe(8);
  expect(unclaimed(rollout, (active) => !active)).toBe(6);
  expect(unclaimed(undefined)).toBe(0);
});

test("a plan is told in words, and what is to be lost comes first", () => {
  const p = { create: 0, cancel: 0, drain: 0, desired: 1, actual: 1, starting: 0, lines: [], template: "t" };
  expect(deeds({ ...p, create: 1, drain: 2, start: 1 })).toEqual(["create 1 prebuild", "remove 2 prebuilds", "start 1 out of standby"]);
  expect(deeds(p)).toEqual([]);
  const plan = {
    presets: [
      { ...p, preset: "idle" },
      { ...p, preset: "grows", create: 3 },
      { ...p, preset: "shrinks", drain: 1 },
      { ...p, preset: "broken", error: "no such provider" },
    ],
  } as unknown as Plan;
  expect(busy(plan).map((x) => x.preset)).toEqual(["broken", "shrinks", "grows"]);
  expect(subject({ kind: "version", name: "web@3", action: "create" })).toBe("version 3 of web");
  expect(subject({ kind: "preset", name: "web/small", action: "update" })).toBe("preset web/small");
});

test("what is wrong with a file is shown with the line that it is in", () => {
  expect(place("a.yaml:12:5")).toEqual({ line: 12, column: 5 });
  expect(place("body.document")).toBeUndefined();
  const errors = [{ location: "x.yaml:2:3", message: 'provider "cloud" has no setting "speed"' }];
  render(<Refusal error={new Problem(422, "nothing was applied: 1 thing to mend", errors)} source={"providers:\n  - {speed: 1}\n"} />);
  const alert = screen.getByRole("alert");
  expect(alert.textContent).toContain('has no setting "speed"');
  expect(alert.querySelector("pre")?.textContent).toBe("2  - {speed: 1}");
  cleanup();
  render(<Refusal error={new Problem(409, "nothing was applied: the state has moved\n- web/small was to: create 1; now: nothing")} source="" />);
  expect(screen.getByRole("alert").textContent).toContain("Nothing was applied: the state has moved");
  expect(screen.getByRole("alert").textContent).toContain("web/small was to");
});
