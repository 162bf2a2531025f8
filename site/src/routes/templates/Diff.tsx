import { changed, compare, fold, pairs, type Fold, type Line } from "./diff";

const signs = { same: " ", removed: "−", added: "+" } as const;
const words = { same: "", removed: "removed: ", added: "added: " } as const;
const grounds = {
  same: "",
  removed: "bg-[color-mix(in_srgb,var(--failed)_11%,transparent)]",
  added: "bg-[color-mix(in_srgb,var(--ready)_13%,transparent)]",
} as const;
const marks = {
  removed: "rounded-xs bg-[color-mix(in_srgb,var(--failed)_26%,transparent)]",
  added: "rounded-xs bg-[color-mix(in_srgb,var(--ready)_28%,transparent)]",
} as const;

/** Diff is what differs between two texts: side by side where there is room, else one below the other. */
export function Diff({ before, after, names }: { before: string; after: string; names: readonly [string, string] }) {
  const lines = compare(before, after);
  const added = lines.filter((l) => l.kind === "added").length;
  const removed = lines.filter((l) => l.kind === "removed").length;
  if (added + removed === 0) return <p className="text-ink-2">They are the same, line by line.</p>;
  const rows = fold(lines);
  return (
    <figure aria-label={`${names[0]} compared with ${names[1]}: ${removed} lines removed, ${added} added`}>
      <figcaption className="mb-2 flex flex-wrap gap-x-4 gap-y-1 text-sm text-ink-2">
        <span>
          <b className="text-failed">−{removed}</b> only in {names[0]}
        </span>
        <span>
          <b className="text-ready">+{added}</b> only in {names[1]}
        </span>
      </figcaption>
      <div className="overflow-hidden rounded-lg border border-line font-mono text-xs leading-5">
        <div className="lg:hidden">
          {rows.map((row, i) => (row.kind === "fold" ? <Folded key={i} fold={row} /> : <Row key={i} line={row} />))}
        </div>
        <div className="hidden lg:block">
          <div className="grid grid-cols-2 border-b border-line bg-sunken font-sans text-ink-2">
            <span className="px-3 py-1">{names[0]}</span>
            <span className="border-l border-line px-3 py-1">{names[1]}</span>
          </div>
          {pairs(rows).map((row, i) =>
            row.kind === "fold" ? (
              <Folded key={i} fold={row} />
            ) : (
              <div key={i} className="grid grid-cols-2">
                <Row line={row.before} other={row.after} side="before" />
                <div className="border-l border-line">
                  <Row line={row.after} other={row.before} side="after" />
                </div>
              </div>
            ),
          )}
        </div>
      </div>
    </figure>
  );
}

function Folded({ fold: { lines } }: { fold: Fold }) {
  return <p className="bg-sunken px-3 py-0.5 text-center font-sans text-ink-2">{lines} lines that are the same</p>;
}

/** Row is one line, with what changed of it marked where there is another that took its place. */
function Row({ line, other, side }: { line: Line | undefined; other?: Line; side?: "before" | "after" }) {
  if (!line) return <div className="h-full bg-sunken/60" />;
  const number = side === "after" ? line.after : side === "before" ? line.before : (line.after ?? line.before);
  return (
    <div className={`flex h-full ${grounds[line.kind]}`}>
      <span className="w-9 shrink-0 pr-2 text-right text-ink-2 select-none" aria-hidden="true">
        {number}
      </span>
      <span className="w-4 shrink-0 select-none" aria-hidden="true">
        {signs[line.kind]}
      </span>
      <span className="min-w-0 grow pr-3 break-words whitespace-pre-wrap">
        {line.kind !== "same" && <span className="sr-only">{words[line.kind]}</span>}
        {line.kind === "same" || !other || other.kind === "same" ? line.text : <Marked line={line} other={other} />}
      </span>
    </div>
  );
}

function Marked({ line, other }: { line: Line; other: Line }) {
  const [head, tail] = changed(line.text, other.text);
  const indent = line.text.length - line.text.trimStart().length;
  // Two lines that share no more than their indentation are different lines.
  if (line.kind === "same" || head + tail <= indent) return line.text;
  const end = line.text.length - tail;
  return (
    <>
      {line.text.slice(0, head)}
      {end > head && <mark className={`text-inherit ${marks[line.kind]}`}>{line.text.slice(head, end)}</mark>}
      {line.text.slice(end)}
    </>
  );
}
