import { diffLines } from "diff";

/** A line of a comparison. One that was only there before has no number after, and the other way round. */
export interface Line {
  kind: "same" | "removed" | "added";
  before?: number;
  after?: number;
  text: string;
}

/** Lines that are the same on both sides, and too far from what is not to be shown. */
export interface Fold {
  kind: "fold";
  lines: number;
}

/** compare is two texts line by line. */
export function compare(before: string, after: string): Line[] {
  let b = 0;
  let a = 0;
  return diffLines(before, after).flatMap((part) => {
    const lines = part.value.replace(/\n$/, "").split("\n");
    return lines.map((text): Line => {
      if (part.added) return { kind: "added", after: ++a, text };
      if (part.removed) return { kind: "removed", before: ++b, text };
      return { kind: "same", before: ++b, after: ++a, text };
    });
  });
}

/** fold leaves out what is the same, but for so many lines around each change. */
export function fold(lines: readonly Line[], around = 3): (Line | Fold)[] {
  const near = new Set<number>();
  lines.forEach((line, i) => {
    if (line.kind === "same") return;
    for (let n = i - around; n <= i + around; n++) near.add(n);
  });
  const out: (Line | Fold)[] = [];
  for (const [i, line] of lines.entries()) {
    const last = out.at(-1);
    if (near.has(i)) out.push(line);
    else if (last?.kind === "fold") last.lines++;
    else out.push({ kind: "fold", lines: 1 });
  }
  // A fold of one line takes as much room as the line.
  return out.map((row, i) => {
    if (row.kind !== "fold" || row.lines > 1) return row;
    const at = out.slice(0, i).reduce((n, r) => n + (r.kind === "fold" ? r.lines : 1), 0);
    return lines[at] ?? row;
  });
}

/** Side by side: what was before, and what took its place. */
export type Pair = Fold | { kind: "pair"; before?: Line; after?: Line };

/** pairs puts what was removed beside what was added in its place. */
export function pairs(rows: readonly (Line | Fold)[]): Pair[] {
  const out: Pair[] = [];
  let removed: Line[] = [];
  let added: Line[] = [];
  const flush = () => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) {
      out.push({ kind: "pair", before: removed[i], after: added[i] });
    }
    removed = [];
    added = [];
  };
  for (const row of rows) {
    if (row.kind === "removed") removed.push(row);
    else if (row.kind === "added") added.push(row);
    else {
      flush();
      out.push(row.kind === "fold" ? row : { kind: "pair", before: row, after: row });
    }
  }
  flush();
  return out;
}

/** changed is where two lines differ: how many characters they share at the beginning, and at the end. */
export function changed(before: string, after: string): readonly [head: number, tail: number] {
  const least = Math.min(before.length, after.length);
  let head = 0;
  while (head < least && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < least - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  return [head, tail];
}
