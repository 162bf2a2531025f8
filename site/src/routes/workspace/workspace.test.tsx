import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { StateDuration, Transition, Workspace } from "../../generated/api";
import { parts } from "./Logs";
import { slow, Timeline, usualOf } from "./Timeline";
import { stagesOf, WorkspaceView } from "./WorkspaceView";

afterEach(cleanup);

const usual: StateDuration[] = [
  { state: "starting", p50_ms: 2_000, p95_ms: 5_000, measured: 40 },
  { state: "ready", p50_ms: 2_000, p95_ms: 5_000, measured: 40 },
  { state: "deleting", p50_ms: 100, p95_ms: 200, measured: 2 },
];
const was = (to: string, lasted_ms?: number): Transition => ({ to, at: "2026-01-01T00:00:00Z", actor: "prewarm", incarnation: 1, lasted_ms });

test("what took longer than nearly all do is slow, where it is work and enough is known", () => {
  const of = (t: Transition) => slow(t, usualOf(t.to, usual));
  expect(of(was("starting", 5_001))).toBe(true);
  expect(of(was("starting", 4_900))).toBe(false);
  expect(of(was("starting"))).toBe(false);
  expect(of(was("ready", 9_000_000))).toBe(false);
  expect(of(was("deleting", 9_000))).toBe(false);
});

test("each state has how long it lasted beside what is usual, and says so where it was slow", () => {
  const history = [was("starting", 9_000), was("ready", 60_000), { ...was("claimed"), reason: "claimed" }];
  render(<Timeline history={history} usual={usual} />);
  expect(screen.getByText("9 s")).toBeTruthy();
  expect(screen.getByText("usually 2 s to 5 s")).toBeTruthy();
  expect(screen.getAllByText(/longer than usual/)).toHaveLength(1);
  expect(screen.getByText("1 min")).toBeTruthy();
  expect(screen.getAllByText("claimed")).toHaveLength(1); // the badge: a reason that says the same is left out
});

test("a receipt has the stages that something is known of, in their order", () => {
  expect(stagesOf({ hook_ms: 300, wait_ms: 0, statement_ms: 2 }).map((s) => `${s.name} ${s.ms}`)).toEqual([
    "chosen 2",
    "waited for one 0",
    "on_claim 300",
  ]);
  expect(stagesOf({})).toEqual([]);
});

test("what was looked for stands out, however it is written", () => {
  expect(parts("Error: no ERROR here", "error")).toEqual(["", "Error", ": no ", "ERROR", " here"]);
  expect(parts("nothing", "x")).toEqual(["nothing"]);
});

test("the system and the resources that a workspace has are shown, where its provider says so", () => {
  const at = "2026-01-01T00:00:00Z";
  const w: Workspace = {
    id: "w",
    name: "prebuild-a",
    organization: "default",
    template: "t",
    preset: "p",
    version: 1,
    provider: "cloud",
    state: "ready",
    incarnation: 1,
    owner: "prewarm",
    addresses: [],
    environment: {},
    parameters: {},
    created_at: at,
    state_at: at,
  };
  render(<WorkspaceView workspace={{ ...w, os_name: "ubuntu", os_version: "24.04" }} />);
  expect(screen.getByText("ubuntu 24.04")).toBeTruthy();
  cleanup();
  const drift = { looked_at: at, resources: ["disk.b"] };
  render(<WorkspaceView workspace={{ ...w, resources: ["disk.a"], drift }} />);
  expect(screen.getByText("disk.b").parentElement?.textContent).toBe("disk.bdrifted");
  expect(screen.getByText("disk.a").parentElement?.textContent).toBe("disk.a");
  expect(screen.getByText(/^Not as its state says, looked at/)).toBeTruthy();
  cleanup();
  render(<WorkspaceView workspace={{ ...w, resources: ["disk.a"], drift: { looked_at: at, resources: [], error: "no network" } }} />);
  expect(screen.getByText(/^No drift, looked at/)).toBeTruthy();
  expect(screen.getByText("The last look for drift failed: no network")).toBeTruthy();
  cleanup();
  render(<WorkspaceView workspace={w} />);
  expect(screen.queryByText("System")).toBeNull();
  expect(screen.queryByText("Made of")).toBeNull();
  expect(screen.queryByText("Applied for its owner")).toBeNull();
  cleanup();
  render(<WorkspaceView workspace={{ ...w, state: "claimed", resources: ["null_resource.a"], handover: "failed" }} />);
  expect(screen.getByText("null_resource.a")).toBeTruthy();
  expect(screen.getByText("no: failed")).toBeTruthy();
});
