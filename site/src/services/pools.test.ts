import { QueryClient } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import type { Pool } from "../generated/api";
import { pool } from "./pools.fixture";
import { incomplete, merge, readAll, slotsOf, warm } from "./pools";

const call = vi.hoisted(() => vi.fn());
vi.mock("./api", () => ({ call }));

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

test("the first pools are shown while the others are read, and only the first time", async () => {
  const client = new QueryClient();
  const key = ["list-pools"];
  const seen: { ids: string[]; more: boolean }[] = [];
  client.getQueryCache().subscribe(() => {
    const known = client.getQueryData<Pool[]>(key);
    if (known) seen.push({ ids: known.map((p) => p.id), more: incomplete(known) });
  });
  const [a, b] = [pool({ id: "a" }), pool({ id: "b" })];
  call.mockResolvedValueOnce({ pools: [a], next: "a" }).mockResolvedValueOnce({ pools: [b] });
  await client.fetchQuery({ queryKey: key, queryFn: () => readAll(client) });
  expect(seen[0]).toEqual({ ids: ["a"], more: true });
  expect(seen.at(-1)).toEqual({ ids: ["a", "b"], more: false });
  expect(call.mock.calls[0]).toEqual(["list-pools", { params: { limit: 50, after: undefined } }]);

  seen.length = 0;
  call.mockResolvedValueOnce({ pools: [a], next: "a" }).mockResolvedValueOnce({ pools: [b] });
  await client.fetchQuery({ queryKey: key, queryFn: () => readAll(client) });
  expect(seen.every((s) => s.ids.length === 2 && !s.more)).toBe(true);
});
