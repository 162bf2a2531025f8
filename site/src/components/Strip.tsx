import type { SVGAttributes } from "react";

/** Kinds of cells, in the order in which a strip shows them. Each has a shape of its own, so that no colour is needed. */
export const kinds = ["ready", "outdated", "starting", "empty", "draining", "failed", "claimed"] as const;

export type Kind = (typeof kinds)[number];

export type Slots = Record<Kind, number>;

const words: Record<Kind, string> = {
  ready: "ready",
  outdated: "outdated",
  starting: "building",
  empty: "empty",
  draining: "draining",
  failed: "failed",
  claimed: "claimed",
};

const colours: Record<Kind, string> = {
  ready: "text-ready",
  outdated: "text-ready",
  starting: "text-starting",
  empty: "text-empty",
  draining: "text-draining",
  failed: "text-failed",
  claimed: "text-claimed",
};

const width = 11;
const height = 18;
const gap = 3;

/** What is drawn into the box of a kind, at the left edge of its cell; it begins with M, since many stand in one path. */
const marks: Partial<Record<Kind, (x: number) => string>> = {
  outdated: (x) => `M${x + 3} 5.500h5m-5 3.500h5m-5 3.500h5`,
  starting: (x) => `M${x + 3} 14.800h5m-5 -3h5m-5 -3h5`,
  draining: (x) => `M${x + 5.5} 5v7m-2.200-2.200 2.200 2.200 2.200-2.200`,
  failed: (x) => `M${x + 3.5} 7l4 4m0-4-4 4`,
  claimed: (x) => `M${x + 4} 6.500a1.500 1.500 0 1 1 3 0a1.500 1.500 0 1 1 -3 0M${x + 3.2} 13a2.300 2.600 0 0 1 4.600 0`,
};

const looks: Partial<Record<Kind, SVGAttributes<SVGPathElement>>> = {
  starting: { strokeWidth: "2.400", strokeLinecap: "butt" },
  failed: { stroke: "var(--surface)" },
  claimed: { fill: "var(--surface)", stroke: "none" },
};

const full: ReadonlySet<Kind> = new Set(["ready", "failed", "claimed"]);

const box = (x: number) =>
  `M${x + 3.25} .750h4.500a2.500 2.500 0 0 1 2.500 2.500v11.500a2.500 2.500 0 0 1-2.500 2.500h-4.500a2.500 2.500 0 0 1-2.500-2.500v-11.500a2.500 2.500 0 0 1 2.500-2.500z`;

/** Cells are slots of one kind, at the left edges `at`: two elements, however many there are. */
export function Cells({ kind, at = [0] }: { kind: Kind; at?: readonly number[] }) {
  const mark = marks[kind];
  return (
    <g className={colours[kind]} stroke="currentColor" strokeWidth="1.500" fill="none" strokeLinecap="round">
      <path
        d={at.map(box).join("")}
        fill={full.has(kind) ? "currentColor" : undefined}
        strokeDasharray={kind === "empty" ? "2.200 2.600" : undefined}
      />
      {mark && <path d={at.map(mark).join("")} {...looks[kind]} />}
    </g>
  );
}

/** describe is a strip in words: 3 ready, 1 building. */
export function describe(slots: Slots): string {
  const parts = kinds.filter((k) => slots[k] > 0).map((k) => `${slots[k]} ${words[k]}`);
  return parts.length > 0 ? parts.join(", ") : "no slots";
}

/**
 * cells is what fits of the slots: one cell for each while there is room, else one for so many of them. Each kind that is
 * there at all keeps a cell.
 */
export function cells(slots: Slots, room: number): { cells: Kind[]; each: number } {
  const total = kinds.reduce((sum, k) => sum + slots[k], 0);
  const each = Math.max(1, Math.ceil(total / room));
  const list = kinds.flatMap((k) => Array<Kind>(slots[k] > 0 ? Math.max(1, Math.round(slots[k] / each)) : 0).fill(k));
  return { cells: list, each };
}

/** Strip is a pool in one look: a cell for each slot. */
export function Strip({ slots, room = 40 }: { slots: Slots; room?: number }) {
  const drawn = cells(slots, room);
  const wide = Math.max(1, drawn.cells.length) * (width + gap) - gap;
  const label = describe(slots) + (drawn.each > 1 ? `; each cell stands for ${drawn.each}` : "");
  return (
    <span className="flex min-w-0 items-center gap-2">
      <svg
        role="img"
        aria-label={label}
        viewBox={`0 0 ${wide} ${height}`}
        width={wide}
        height={height}
        className="h-auto max-w-full min-w-0 shrink"
      >
        <title>{label}</title>
        {kinds.map((kind) => {
          const at = drawn.cells.flatMap((k, i) => (k === kind ? [i * (width + gap)] : []));
          return at.length > 0 && <Cells key={kind} kind={kind} at={at} />;
        })}
      </svg>
      {drawn.each > 1 && (
        <span className="text-2xs whitespace-nowrap text-ink-2" aria-hidden="true">
          {drawn.each} a cell
        </span>
      )}
    </span>
  );
}

/** StripLegend says what the shapes mean. */
export function StripLegend({ of = kinds }: { of?: readonly Kind[] }) {
  return (
    <ul className="flex flex-wrap gap-x-4 gap-y-1.5 text-xs text-ink-2" aria-label="Legend">
      {of.map((kind) => (
        <li key={kind} className="flex items-center gap-1.5">
          <svg viewBox={`0 0 ${width} ${height}`} width={width * 0.8} height={height * 0.8} aria-hidden="true">
            <Cells kind={kind} />
          </svg>
          {words[kind]}
        </li>
      ))}
    </ul>
  );
}
