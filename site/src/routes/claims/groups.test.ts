import { expect, test } from "vitest";
import type { ClaimRecord } from "../../generated/api";
import { rowsOf, saysGroup } from "./groups";

const claim = (claim_id: string, more: Partial<ClaimRecord> = {}): ClaimRecord => ({
  claim_id,
  state: "waiting",
  mode: "prefer",
  user: "ann",
  template: "web",
  preset: "small",
  created_at: "2026-01-01T00:00:00Z",
  waited_ms: 0,
  ...more,
});
const group = { id: "g", count: 9, alike: 9, ready: 3 };

test("a request with a count is one row, below which its claims are where it is open", () => {
  const list = [claim("a"), claim("b", { group }), claim("c", { group }), claim("d")];
  expect(rowsOf(list).map((r) => `${r.kind} ${r.claim.claim_id}`)).toEqual(["claim a", "group b", "claim d"]);
  expect(rowsOf(list, new Map([["g", list.slice(1, 3)]])).map((r) => `${r.kind} ${r.claim.claim_id}`)).toEqual([
    "claim a",
    "group b",
    "member b",
    "member c",
    "claim d",
  ]);
});

test("a request with a count says how it stands", () => {
  expect(saysGroup(claim("a", { group }))).toBe("3 of 9 ready");
  expect(saysGroup(claim("a", { state: "bound", group }))).toBe("9 workspaces, all in use");
  expect(saysGroup(claim("a", { state: "bound", group: { ...group, alike: 5 } }))).toBe("5 of 9 in use");
  expect(saysGroup(claim("a", { state: "released", group: { ...group, alike: 4 } }))).toBe("4 of 9 released");
  expect(saysGroup(claim("a"))).toBe("");
});
