import { expect, test } from "vitest";
import type { ForgeEntity, Runner } from "../../generated/api";
import { forgeOf } from "../../services/forges";
import { conclusion, standing, statusOf, tally, took, web } from "./jobs";

const now = Date.parse("2026-01-01T12:00:00Z");

test("the worst of a forge is what it says of itself", () => {
  const fine = { running: true, waiting: 0, credential_checked: true, succeeded_at: "2026-01-01T11:59:00Z" };
  const cases: [Pick<ForgeEntity, "stopped" | "stopped_at" | "status">, string][] = [
    [{ status: fine }, "works"],
    [{ status: { ...fine, succeeded_at: undefined } as ForgeEntity["status"] }, "not asked yet"],
    [{ status: { ...fine, wait_until: "2026-01-01T12:00:30Z" } }, "waits for its rate limit"],
    [{ status: { ...fine, wait_until: "2026-01-01T11:59:30Z" } }, "works"],
    [{ status: { ...fine, error: "502", wait_until: "2026-01-01T12:00:30Z" } }, "fails"],
    [{ stopped: "moving", stopped_at: "2026-01-01T11:00:00Z", status: { ...fine, error: "502" } }, "stopped"],
  ];
  for (const [forge, word] of cases) expect(standing(forge, now).text).toBe(word);
});

test("a job ended as its forge says, also in words that are not known here", () => {
  expect(conclusion({ conclusion: "success" })).toMatchObject({ icon: "check", text: "success" });
  expect(conclusion({ conclusion: "timed_out" })).toMatchObject({ colour: "text-failed", text: "timed out" });
  expect(conclusion({ conclusion: "something_new" }).text).toBe("something new");
  expect(conclusion({}).text).toBe("ended");
});

test("how long a job ran is known where both ends are, and is never negative", () => {
  expect(took({ started_at: "2026-01-01T11:00:00Z", completed_at: "2026-01-01T11:01:30Z" })).toBe(90_000);
  expect(took({ started_at: "2026-01-01T11:00:00Z", completed_at: "2026-01-01T10:59:59Z" })).toBe(0);
  expect(took({ completed_at: "2026-01-01T11:01:30Z" })).toBeUndefined();
});

test("a link leads to a page, whatever a webhook said", () => {
  expect(web("https://github.com/acme/shop/actions/runs/1/job/2")).toBeDefined();
  expect(web("http://gitea.local/x")).toBeDefined();
  for (const bad of [undefined, "", "javascript:alert(1)", " javascript:alert(1)", "data:text/html,x", "//evil"]) {
    expect(web(bad)).toBeUndefined();
  }
});

test("runners are counted by what their forge says, in the order of their lives, without those that are gone", () => {
  const of = (status: Runner["status"]) => ({ status });
  expect(tally([of("active"), of("idle"), of("gone"), of("idle")])).toEqual([
    { status: "idle", count: 2 },
    { status: "active", count: 1 },
  ]);
  expect(statusOf({ status: "active" }).text).toBe("at a job");
});

test("a preset's forge is the one that names it", () => {
  const forges = [{ presets: ["ci/linux"] }, { presets: ["ci/linux-arm", "gpu/large"] }];
  expect(forgeOf(forges, "gpu", "large")).toBe(forges[1]);
  expect(forgeOf(forges, "ci", "linux")).toBe(forges[0]);
  expect(forgeOf(forges, "ci", "lin")).toBeUndefined();
  expect(forgeOf(undefined, "ci", "linux")).toBeUndefined();
});
