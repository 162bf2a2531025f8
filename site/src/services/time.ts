import { useSyncExternalStore } from "react";

/** now ticks once a second for everything that shows how long ago something was, with one timer for all. */
let current = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const watchers = new Set<() => void>();

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  if (timer === undefined) current = Date.now();
  timer ??= setInterval(() => {
    current = Date.now();
    for (const w of watchers) w();
  }, 1_000);
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** useNow is the time in milliseconds, to the second. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => current);
}

const units: readonly (readonly [seconds: number, name: string])[] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** duration is a time span in the two largest units that say something: 850 ms, 2.4 s, 3 min 20 s, 4 d 2 h. */
export function duration(ms: number): string {
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1).replace(/\.0$/, "")} s`;
  const seconds = Math.round(ms / 1_000);
  for (const [i, [size, name]] of units.entries()) {
    if (seconds < size) continue;
    const whole = Math.floor(seconds / size);
    const next = units[i + 1];
    const rest = next ? Math.floor((seconds % size) / next[0]) : 0;
    return rest > 0 && next ? `${whole} ${name} ${rest} ${next[1]}` : `${whole} ${name}`;
  }
  return "0 s";
}

/** age is how long ago in the largest unit, or until in two, so that 1 h 59 min is not told as 1 h: 12 s ago, in 3 h. */
export function age(at: number, now: number): string {
  const seconds = Math.round((now - at) / 1_000);
  if (Math.abs(seconds) < 1) return "now";
  if (seconds < 0) return `in ${duration(-seconds * 1_000)}`;
  const [size, name] = units.find(([s]) => seconds >= s) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${name} ago`;
}

const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** clock is an instant by the browser's clock: the time of day where it is within a day, else the date too. */
export function clock(at: string, now: number): string {
  const instant = new Date(at);
  return Math.abs(instant.getTime() - now) < 86_400_000 && instant.getDate() === new Date(now).getDate()
    ? hour.format(instant)
    : day.format(instant);
}
