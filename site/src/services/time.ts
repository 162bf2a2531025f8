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

const time = { hour: "2-digit", minute: "2-digit" } as const;
const date = { year: "numeric", month: "short", day: "numeric" } as const;
const zoned = { timeZoneName: "short" } as const;
const hour = new Intl.DateTimeFormat(undefined, { ...time, ...zoned });
const day = new Intl.DateTimeFormat(undefined, { ...date, ...time, ...zoned });
const exact = new Intl.DateTimeFormat(undefined, { ...date, ...time, second: "2-digit", ...zoned });
const bare = new Intl.DateTimeFormat(undefined, { ...time, hourCycle: "h23" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });

/** instant is a date, a time to the second, and its time zone. */
export function instant(at: string | number): string {
  return exact.format(new Date(at));
}

/** minutes is a date, a time to the minute, and its time zone. */
export function minutes(at: string | number): string {
  return day.format(new Date(at));
}

/** bareTime is a time of day without its zone, for ticks and lists whose heading says the zone. */
export function bareTime(at: Date): string {
  return bare.format(at);
}

/** zone is the browser's time zone at an instant, such as CET or GMT+2. */
export function zone(at: Date = new Date()): string {
  return hour.formatToParts(at).find((p) => p.type === "timeZoneName")?.value ?? "";
}

/** span is a day with two times of it and their zone: Mon, 2 Mar, 09:00 to 09:15 CET. */
export function span(from: Date, to: Date): string {
  return `${weekday.format(from)}, ${bareTime(from)} to ${bareTime(to)} ${zone(from)}`;
}

/** clock is an instant by the browser's clock: the time of day where it is within a day, else the date too. */
export function clock(at: string, now: number): string {
  const when = new Date(at);
  return Math.abs(when.getTime() - now) < 86_400_000 && when.getDate() === new Date(now).getDate()
    ? hour.format(when)
    : day.format(when);
}
