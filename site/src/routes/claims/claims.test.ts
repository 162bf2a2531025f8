import { expect, test } from "vitest";
import { leaseLeft, milliseconds, stages } from "./receipt";

test("only the stages that are known are shown, in their order", () => {
  expect(stages({ receipt: { hook_ms: 20, wait_ms: 1_000 } }).map((s) => [s.name, s.value])).toEqual([
    ["waited", 1_000],
    ["on_claim", 20],
  ]);
  expect(stages({})).toEqual([]);
  expect(stages({ receipt: { told_ms: 0 } })).toHaveLength(1);
});

test("a lease is what is left of all of it", () => {
  expect(milliseconds("2h30m0s")).toBe(9_000_000);
  expect(milliseconds("1m30.5s")).toBe(90_500);
  expect(milliseconds("250ms")).toBe(250);
  const until = "2026-01-01T12:00:00Z";
  const at = (time: string) => Date.parse(`2026-01-01T${time}Z`);
  expect(leaseLeft({ lease: "2h0m0s", lease_until: until }, at("11:30:00"))).toEqual({ ms: 1_800_000, share: 0.25 });
  expect(leaseLeft({ lease: "2h0m0s", lease_until: until }, at("12:00:01"))).toEqual({ ms: -1_000, share: 0 });
  expect(leaseLeft({ lease: "1h0m0s", lease_until: until }, at("09:00:00"))?.share).toBe(1);
  expect(leaseLeft({ lease: "1h0m0s" }, 0)).toBeUndefined();
});
