import { expect, test } from "vitest";
import { money } from "../../services/money";
import { pool } from "../../services/pools.fixture";
import { each, sum } from "./Bulk";

test("an act on several pools goes on after one has failed, and says what became of each", async () => {
  const pools = ["a", "b", "c"].map((preset) => pool({ id: preset, preset }));
  const outcomes = await each(pools, (p) => (p.preset === "b" ? Promise.reject(new Error("is paused")) : Promise.resolve()));
  expect(outcomes).toEqual([{ pool: "web/a" }, { pool: "web/b", error: "is paused" }, { pool: "web/c" }]);
  expect(sum(outcomes, "replaced")).toBe("2 of 3 pools replaced.");
  expect(sum(outcomes.slice(0, 1), "replaced")).toBe("1 pool replaced.");
});

test("an amount that is not nothing does not read as nothing", () => {
  expect([0, 0.004, 2.4].map(money)).toEqual(["0.00", "0.004", "2.40"]);
});
