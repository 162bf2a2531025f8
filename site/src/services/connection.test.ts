import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Connection, gatewayOnly, patiently } from "./connection";

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 });
  vi.spyOn(Math, "random").mockReturnValue(1);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const away = () => Promise.reject(new Error("no answer"));

test("one failure is not the loss of a server, two are; the age counts from its last answer", async () => {
  const ask = vi.fn(away);
  const connection = new Connection(ask);
  connection.heard();
  await vi.advanceTimersByTimeAsync(10_000);
  connection.doubt();
  connection.doubt();
  await vi.advanceTimersByTimeAsync(0);
  expect(ask, "it is asked once for several doubts").toHaveBeenCalledTimes(1);
  expect(connection.lost()).toBeUndefined();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(connection.lost()).toEqual({ heard: 1_000_000, next: 1_011_000 + 2_000 });
});

test("it is asked later and later, at once on demand, and until it answers", async () => {
  const ask = vi.fn(away);
  const connection = new Connection(ask);
  const back = vi.fn();
  connection.onBack = back;
  connection.doubt();
  await vi.advanceTimersByTimeAsync(1_000 + 2_000 + 4_000 + 8_000 + 15_000 + 15_000);
  expect(ask).toHaveBeenCalledTimes(7);
  void connection.try();
  await vi.advanceTimersByTimeAsync(0);
  expect(ask).toHaveBeenCalledTimes(8);
  expect(back).not.toHaveBeenCalled();
  ask.mockResolvedValueOnce(undefined as never);
  await vi.advanceTimersByTimeAsync(15_000);
  expect(connection.lost()).toBeUndefined();
  expect(back).toHaveBeenCalledOnce();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ask, "then there is nothing to ask").toHaveBeenCalledTimes(9);
});

test("any request that is answered ends it", async () => {
  const connection = new Connection(away);
  const watcher = vi.fn();
  connection.watch(watcher);
  connection.doubt();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(connection.lost()).toBeDefined();
  connection.heard();
  expect(connection.lost()).toBeUndefined();
  expect(watcher).toHaveBeenCalledTimes(2);
});

test("a page's file that cannot be loaded is loaded again when the server is back, once", async () => {
  const ask = vi.fn(away);
  const connection = new Connection(ask);
  const load = vi.fn<() => Promise<string>>().mockRejectedValueOnce(new Error("no file")).mockResolvedValue("page");
  const loaded = patiently(load, connection);
  await vi.advanceTimersByTimeAsync(3_000);
  expect(connection.lost()).toBeDefined();
  expect(load).toHaveBeenCalledTimes(1);
  connection.heard();
  expect(await loaded).toBe("page");

  ask.mockResolvedValue(undefined as never);
  const gone = vi.fn(() => Promise.reject(new Error("of an older version")));
  await expect(patiently(gone, connection)).rejects.toThrow("of an older version");
  expect(gone).toHaveBeenCalledTimes(2);
});

test("a proxy that answers for a server that is gone is no server", () => {
  const of = (status: number, type: string) => gatewayOnly(new Response("", { status, headers: { "Content-Type": type } }));
  expect(of(502, "text/html")).toBe(true);
  expect(of(503, "application/problem+json")).toBe(false);
  expect(of(500, "text/html")).toBe(false);
  expect(of(200, "text/html")).toBe(false);
});
