import { bareTime } from "./time";

/** What charts are made of: scales, ticks and paths. Pure, so that a test can say what is drawn. */

/** Value of a step; undefined where nothing is known of it. */
export type Value = number | undefined;

/** top is the smallest round number that has room for all values: 1, 2, 4, 5, 10, 20 … which two or more steps divide. */
export function top(values: readonly Value[], least = 1): number {
  const most = Math.max(least, ...values.map((v) => v ?? 0));
  const power = 10 ** Math.floor(Math.log10(most));
  for (const factor of [1, 2, 4, 5, 10]) {
    if (factor * power >= most) return factor * power;
  }
  return 10 * power;
}

/** ticks of a vertical axis up to a top: its half and itself, where the half is whole or the numbers are no counts. */
export function ticks(max: number, whole = true): number[] {
  return whole && max % 2 !== 0 ? [0, max] : [0, max / 2, max];
}

export interface Scale {
  /** x of an edge between steps: 0 is where the first begins. */
  x: (edge: number) => number;
  y: (value: number) => number;
}

/** runs are the stretches of steps whose value is known: where each begins, and what it has. */
export function runs(values: readonly Value[]): { from: number; values: number[] }[] {
  const found: { from: number; values: number[] }[] = [];
  let open = false;
  values.forEach((v, i) => {
    if (v === undefined) open = false;
    else if (open) found.at(-1)?.values.push(v);
    else {
      found.push({ from: i, values: [v] });
      open = true;
    }
  });
  return found;
}

const n = (v: number) => String(Math.round(v * 10) / 10);

/** stairs is the line of values that hold for a whole step each, with gaps where nothing is known. */
export function stairs(values: readonly Value[], { x, y }: Scale): string {
  return runs(values)
    .map(
      (run) =>
        `M${n(x(run.from))} ${n(y(run.values[0] ?? 0))}` +
        run.values.map((v, i) => `V${n(y(v))}H${n(x(run.from + i + 1))}`).join(""),
    )
    .join("");
}

/** block is the area between two such lines; where either is not known there is none. */
export function block(upper: readonly Value[], lower: readonly Value[], scale: Scale): string {
  const { x, y } = scale;
  const known = upper.map((v, i) => (lower[i] === undefined ? undefined : v));
  return runs(known)
    .map((run) => {
      const there = run.values.map((v, i) => `V${n(y(v))}H${n(x(run.from + i + 1))}`).join("");
      const back = run.values
        .map((_, i) => `V${n(y(lower[run.from + i] ?? 0))}H${n(x(run.from + i))}`)
        .reverse()
        .join("");
      return `M${n(x(run.from))} ${n(y(lower[run.from] ?? 0))}${there}${back}Z`;
    })
    .join("");
}

export interface TimeTick {
  at: number;
  text: string;
}

const minute = 60_000;
const day = 24 * 60;

/** Lengths between ticks that a reader takes for round, in minutes. */
const rounds = [5, 10, 15, 30, 60, 120, 180, 240, 360, 720, day, 2 * day, 3 * day, 4 * day, 7 * day];

/** timeTicks are round times of the reader's clock between two instants: times of a day, or days; no more than most. */
export function timeTicks(from: number, to: number, most: number): TimeTick[] {
  if (!(to > from)) return [];
  const every = rounds.find((m) => (to - from) / (m * minute) <= most) ?? 14 * day;
  const first = new Date(from);
  first.setHours(0, 0, 0, 0);
  const list: TimeTick[] = [];
  // By the calendar and not by adding hours: a day may have 23 or 25.
  for (let i = 0; ; i++) {
    const at = new Date(first);
    if (every >= day) at.setDate(first.getDate() + (i * every) / day);
    else at.setMinutes(i * every);
    if (at.getTime() > to) return list;
    if (at.getTime() >= from) list.push({ at: at.getTime(), text: tickText(at, every) });
  }
}

function tickText(at: Date, every: number): string {
  if (every >= day) return at.toLocaleDateString(undefined, { day: "numeric", month: "short" });
  return bareTime(at);
}
