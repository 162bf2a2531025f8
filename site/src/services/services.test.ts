import { expect, test, vi } from "vitest";
import { address, call, Problem } from "./api";
import { connection } from "./connection";
import { affected } from "./invalidate";
import { may } from "./session";
import { age, duration } from "./time";

test("an operation's address takes its path first, and the rest as its query", () => {
  expect(address("get-preset", { template: "a/b", preset: "ü" })).toEqual({
    method: "GET",
    url: "/api/v1/presets/a%2Fb/%C3%BC",
  });
  expect(address("list-workspaces", { state: "ready", limit: 5, after: undefined, owner: "" }).url).toBe(
    "/api/v1/workspaces?state=ready&limit=5",
  );
});

test("what the server refuses is a problem with its words, and so is silence", async () => {
  const fetched = vi.spyOn(globalThis, "fetch");
  const doubt = vi.spyOn(connection, "doubt").mockImplementation(() => undefined);
  fetched.mockResolvedValueOnce(new Response(JSON.stringify({ detail: "no such preset" }), { status: 404 }));
  await expect(call("list-presets")).rejects.toMatchObject({ status: 404, message: "no such preset" });
  fetched.mockResolvedValueOnce(new Response("<html>", { status: 502 }));
  await expect(call("list-presets")).rejects.toMatchObject({ status: 502 });
  fetched.mockRejectedValueOnce(new TypeError("failed"));
  await expect(call("list-presets")).rejects.toBeInstanceOf(Problem);
  expect(doubt, "a proxy alone, and silence").toHaveBeenCalledTimes(2);
  fetched.mockResolvedValueOnce(new Response(null, { status: 204 }));
  await expect(call("delete-session")).resolves.toBeUndefined();
});

test("a hint makes stale what it is about, and nothing else", () => {
  const hint = (topic: string, id: string) => ({ everything: false, hints: [{ topic, id }] });
  expect(affected(["get-workspace", {}], { id: "1" }, hint("workspace", "1"))).toBe(true);
  expect(affected(["get-workspace", {}], { id: "1" }, hint("workspace", "2"))).toBe(false);
  expect(affected(["get-workspace", {}], undefined, hint("workspace", "2"))).toBe(true);
  expect(affected(["list-workspaces", {}], { workspaces: [] }, hint("workspace", "2"))).toBe(true);
  expect(affected(["list-replicas", {}], [], hint("workspace", "2"))).toBe(false);
  expect(affected(["list-replicas", {}], [], { everything: true, hints: [] })).toBe(true);
});

test("roles see what they have a part in", () => {
  expect(may("owner", "apply")).toBe(true);
  expect(may("member", "apply")).toBe(false);
  expect(may("auditor", "list-audit")).toBe(true);
  expect(may(undefined, "whoami")).toBe(false);
});

test("times are short", () => {
  expect([0, 850, 2_400, 9_960, 59_400, 200_000, 7_200_000, 360_000_000].map(duration)).toEqual([
    "0 ms",
    "850 ms",
    "2.4 s",
    "10 s",
    "59 s",
    "3 min 20 s",
    "2 h",
    "4 d 4 h",
  ]);
  expect(age(1_000, 1_400)).toBe("now");
  expect(age(0, 12_000)).toBe("12 s ago");
  expect(age(10_800_000, 0)).toBe("in 3 h");
  expect(age(7_199_000, 0)).toBe("in 1 h 59 min"); // never rounded down to 1 h
  expect(age(7_199_000, 14_398_000)).toBe("1 h ago");
});
