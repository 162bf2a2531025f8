import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Inventory, Machine, Provider } from "../../generated/api";
import { lines } from "./Check";
import { InventoryView } from "./InventoryView";
import { count } from "./Machines";
import { BreakerSteps, Deleted, lastOf, Standing, Use } from "./ProviderCard";
import { groups, tally } from "./verdicts";

afterEach(cleanup);

const limits = {
  maximum: 0,
  creates_in_flight: 16,
  chunk: 1_000,
  create_burst: 1,
  inventory_every: "1m0s",
  breaker_count: 10,
  breaker_percent: 25,
  breaker_errors: 50,
};

function provider(change: Partial<Provider> = {}): Provider {
  return {
    name: "cloud",
    kind: "sim",
    can: [],
    confirmed: true,
    claimed: 2,
    unclaimed: 3,
    creating: 1,
    reserves: false,
    limits,
    sites: [],
    ...change,
  };
}

test("the worst of a provider is what it says of itself", () => {
  const breaker = { reason: "r", since: "2026-01-01T00:00:00Z", clean: 1, close_at: 3 };
  const cases: [Partial<Provider>, string][] = [
    [{}, "works"],
    [{ confirmed: false }, "to be confirmed"],
    [{ confirmed: false, breaker }, "breaker open"],
    [{ breaker, error: "no such file" }, "does not work here"],
    [{ breaker, error: "no such file", deleted_at: "2026-01-01T00:00:00Z" }, "deleted"],
  ];
  for (const [change, word] of cases) {
    render(<Standing provider={provider(change)} />);
    expect(screen.getByText(word)).toBeTruthy();
    cleanup();
  }
});

test("of one that is deleted it is told what is left there", () => {
  const deleted_at = "2026-01-01T00:00:00Z";
  const { container } = render(<Deleted provider={provider({ deleted_at })} />);
  expect(container.textContent).toContain("Left there: 2 claimed, 3 unclaimed. What is claimed stays until it is released.");
  cleanup();
  const empty = render(<Deleted provider={provider({ deleted_at, claimed: 0, unclaimed: 0 })} />);
  expect(empty.container.textContent).toContain("No workspace is left there. It is listed until an inventory finds nothing.");
});

test("how full it is, is told with its maximum or without one", () => {
  render(<Use provider={provider({ limits: { ...limits, maximum: 40 } })} />);
  expect(screen.getByRole("img", { name: "3 unclaimed, 2 claimed, of 40" })).toBeTruthy();
  expect(screen.getByRole("img", { name: "1 of 16 creates in flight" })).toBeTruthy();
  cleanup();
  render(<Use provider={provider()} />);
  expect(screen.getByText(/no maximum/)).toBeTruthy();
});

test("of several sites the inventory that ended last counts", () => {
  const last = (ended_at: string) => ({ ended_at, outcome: "complete" as const, resources: 1, workspaces: 1, discrepancies: 0, next_at: ended_at });
  expect(lastOf({ sites: [{ site: "a", last: last("2026-01-01T00:00:02Z") }, { site: "b" }, { site: "c", last: last("2026-01-01T00:00:03Z") }] })?.ended_at).toBe(
    "2026-01-01T00:00:03Z",
  );
  expect(lastOf({ sites: [] })).toBeUndefined();
});

test("clean inventories are counted in words, too", () => {
  render(<BreakerSteps breaker={{ reason: "r", since: "2026-01-01T00:00:00Z", clean: 1, close_at: 3 }} />);
  expect(screen.getByRole("img", { name: "1 of 3 clean inventories in a row" })).toBeTruthy();
});

test("verdicts come the worst first, and each says what follows", () => {
  expect(tally({ ok: 5, orphan: 1, "claimed-missing": 2, adopt: 0 })).toEqual([
    ["claimed-missing", 2],
    ["orphan", 1],
    ["ok", 5],
  ]);
  const inventory: Inventory = {
    provider: "cloud",
    confirmed: true,
    counts: { ok: 5, orphan: 300 },
    entries: [{ verdict: "orphan", resource: "stray", detail: "no row has it", next: "is deleted" }],
  };
  render(<InventoryView inventory={inventory} />);
  expect(screen.getByText("is deleted")).toBeTruthy();
  expect(screen.getByText(/1 of 300 discrepancies/)).toBeTruthy();
  cleanup();
  render(<InventoryView inventory={{ ...inventory, counts: { ok: 5 }, entries: [] }} />);
  expect(screen.getByText("No differences found.")).toBeTruthy();
  cleanup();
  render(<InventoryView inventory={{ ...inventory, counts: {}, entries: [], error: "no answer" }} />);
  expect(screen.queryByText("Neither side has anything.")).toBeNull();
});

test("what is told in the same words is told once", () => {
  const entry = (verdict: "orphan" | "missing", name: string, next = "is deleted") => ({ verdict, resource: name, next });
  const told = groups([entry("orphan", "a"), entry("missing", "b"), entry("orphan", "c"), entry("orphan", "d", "is shown")]);
  expect(told.map((g) => [g.verdict, g.next, g.entries.map((e) => e.resource)])).toEqual([
    ["missing", "is deleted", ["b"]],
    ["orphan", "is deleted", ["a", "c"]],
    ["orphan", "is shown", ["d"]],
  ]);
});

test("machines are counted by their state", () => {
  const m = (state: Machine["state"]) => ({ machine: "m", state });
  expect(count([m("unused"), m("used"), m("unused"), m("possibly_used")])).toBe("2 unused, 1 used, 1 possibly used");
});

test("verdicts of a check that come in parts are whole", () => {
  const first = lines("", '{"a":1}\n{"b"');
  expect(first.whole).toEqual(['{"a":1}']);
  expect(lines(first.rest, ":2}\n\n")).toEqual({ whole: ['{"b":2}'], rest: "" });
});
