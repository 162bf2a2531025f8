import { beforeEach, expect, test, vi } from "vitest";
import { clicked, wasClicked } from "./opening";

beforeEach(() => localStorage.clear());

test("a click counts once, for its port, and for a moment", () => {
  expect(wasClicked("w", "3000")).toBe(false);
  clicked("w", 3000);
  expect(wasClicked("w", "3000")).toBe(true);
  expect(wasClicked("w", "3000")).toBe(false);
  clicked("w", 3000);
  expect(wasClicked("w", "3001")).toBe(false);
  clicked("v", 3000);
  expect(wasClicked("w", "3000")).toBe(false);
  vi.useFakeTimers();
  clicked("w", 3000);
  vi.advanceTimersByTime(10_000);
  expect(wasClicked("w", "3000")).toBe(false);
  vi.useRealTimers();
});
