import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Stream, unauthorized, type News } from "./stream";

class Socket {
  static all: Socket[] = [];
  onmessage: ((event: { data: string }) => void) | undefined;
  onclose: ((event: { code: number }) => void) | undefined;
  constructor() {
    Socket.all.push(this);
  }
  close() {}
  send(message: unknown) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

beforeEach(() => {
  Socket.all = [];
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", Socket);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function started() {
  const news: News[] = [];
  const stream = new Stream(() => "ws://test");
  stream.listen((n) => news.push(n));
  stream.start();
  return { stream, news };
}

test("hints that come together are told together, and everything outweighs them", () => {
  const { stream, news } = started();
  expect(stream.up()).toBe(false);
  Socket.all[0]?.send({ everything: true, reconnect_ms: 1_000 });
  vi.runAllTimers();
  expect(stream.up()).toBe(true);
  Socket.all[0]?.send({ hints: [{ topic: "preset", id: "1" }] });
  Socket.all[0]?.send({ hints: [{ topic: "preset", id: "2" }] });
  vi.runAllTimers();
  Socket.all[0]?.send({ hints: [{ topic: "preset", id: "3" }] });
  Socket.all[0]?.send({ everything: true });
  vi.runAllTimers();
  expect(news).toEqual([
    { everything: true, hints: [] },
    {
      everything: false,
      hints: [
        { topic: "preset", id: "1" },
        { topic: "preset", id: "2" },
      ],
    },
    { everything: true, hints: [] },
  ]);
});

test("a stream that ends is opened again when the server asked, and later and later where nobody answers", () => {
  const { stream } = started();
  Socket.all[0]?.send({ everything: true, reconnect_ms: 3_000 });
  Socket.all[0]?.onclose?.({ code: 1012 });
  expect(stream.up()).toBe(false);
  vi.advanceTimersByTime(2_999);
  expect(Socket.all).toHaveLength(1);
  vi.advanceTimersByTime(1);
  expect(Socket.all).toHaveLength(2);
  vi.spyOn(Math, "random").mockReturnValue(1);
  for (let i = 1; i <= 10; i++) {
    Socket.all.at(-1)?.onclose?.({ code: 1006 });
    const wait = Math.min(500 * 2 ** i, 15_000);
    vi.advanceTimersByTime(wait - 1);
    expect(Socket.all).toHaveLength(1 + i);
    vi.advanceTimersByTime(1);
    expect(Socket.all).toHaveLength(2 + i);
  }
});

test("a session that is over ends the stream for good", () => {
  const { stream } = started();
  const over = vi.fn();
  stream.onUnauthorized = over;
  Socket.all[0]?.onclose?.({ code: unauthorized });
  vi.runAllTimers();
  expect(over).toHaveBeenCalledOnce();
  expect(Socket.all).toHaveLength(1);
  stream.start();
  expect(Socket.all).toHaveLength(2);
});
