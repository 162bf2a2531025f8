import { Link } from "@tanstack/react-router";
import { useId, useMemo, useState } from "react";
import { percent } from "../../components/Hours";
import { Section } from "../../components/Page";
import { Mark, Plot } from "../../components/Plot";
import type { HistoryPoint, Preset, PresetHistory } from "../../generated/api";
import { block, stairs, top, type Value } from "../../services/chart";
import { duration, minutes, span, zone } from "../../services/time";

/** The ranges that can be looked at, by what the URL says; without it a day. */
export const ranges = [
  { range: undefined, name: "24 h", hours: 24 },
  { range: "7d", name: "7 d", hours: 168 },
  { range: "14d", name: "14 d", hours: 336 },
] as const;

export type Range = (typeof ranges)[number]["range"];

export const hoursOf = (range: Range) => ranges.find((r) => r.range === range)?.hours ?? 24;

/** So many steps are shown at least, also of a pool that is younger. */
const fewest = 12;

/** cropped leaves out what was before anything was known, so that a young pool is not a dot at the edge. */
export function cropped(history: PresetHistory): PresetHistory {
  const first = history.points.findIndex((p) => p.desired !== undefined || p.claims || p.provisions);
  const from = Math.max(0, Math.min(first < 0 ? 0 : first - 1, history.points.length - fewest));
  const points = history.points.slice(from);
  return { ...history, points, from: points[0]?.at ?? history.from };
}

/** History is what a pool looked like over time, in four charts with one axis. */
export function History({ history: whole, now, range, params }: {
  history: PresetHistory;
  /** The counts of this moment. */
  now: Pick<Preset, "desired" | "actual" | "starting" | "claimed">;
  range: Range;
  params: { template: string; preset: string };
}) {
  const [at, setAt] = useState<number>();
  const history = useMemo(() => cropped(whole), [whole]);
  const points = history.points;
  const pointed = at !== undefined ? points[at] : undefined;
  const last = points.at(-1);
  const shown =
    pointed ?? (last && { ...last, desired: now.desired, ready: now.actual, starting: now.starting, claimed: now.claimed });
  return (
    <Section
      title="Over time"
      beside={
        <span className="flex flex-wrap items-center gap-x-4 gap-y-1">
          <span className="tabular-nums" aria-live="off">
            {pointed ? when(pointed.at, history.step_seconds) : `Times in ${zone()}`}
          </span>
          <nav aria-label="Range" className="flex gap-1 rounded-lg bg-sunken p-0.5">
            {ranges.map((r) => (
              <Link
                key={r.name}
                to="/presets/$template/$preset"
                params={params}
                search={{ range: r.range }}
                replace
                resetScroll={false}
                aria-current={r.range === range ? "true" : undefined}
                className={`rounded-md px-2.5 py-1 text-xs font-medium ${r.range === range ? "bg-surface text-ink shadow-card" : "text-ink-2 hover:text-ink"}`}
              >
                {r.name}
              </Link>
            ))}
          </nav>
        </span>
      }
    >
      {shown && (
        <Charts
          history={history}
          shown={shown}
          whole={!pointed ? (ranges.find((r) => r.range === range)?.name ?? "") : undefined}
          at={pointed && at}
          onAt={setAt}
        />
      )}
      <Numbers history={history} />
    </Section>
  );
}

const when = (at: string, seconds: number) => {
  const from = new Date(at);
  return span(from, new Date(from.getTime() + seconds * 1_000));
};

interface ChartsProps {
  history: PresetHistory;
  shown: HistoryPoint;
  /** Where nothing is pointed at: the name of the whole range, of which sums are shown. */
  whole: string | undefined;
  at: number | undefined;
  onAt: (at: number | undefined) => void;
}

function Charts({ history, shown, whole, at, onAt }: ChartsProps) {
  const now = whole !== undefined;
  const hatch = useId();
  const { points } = history;
  const of = useMemo(() => {
    const column = (get: (p: HistoryPoint) => Value) => points.map(get);
    return {
      desired: column((p) => p.desired),
      ready: column((p) => p.ready),
      built: column((p) => (p.ready === undefined ? undefined : p.ready + (p.starting ?? 0))),
      claimed: column((p) => p.claimed),
      none: points.map(() => 0),
    };
  }, [points]);
  const total = (get: (p: HistoryPoint) => number | undefined) => points.reduce((sum, p) => sum + (get(p) ?? 0), 0);
  const claims = now ? total((p) => p.claims) : (shown.claims ?? 0);
  const hits = now ? total((p) => p.hits) : (shown.hits ?? 0);
  const frame = {
    from: new Date(history.from).getTime(),
    step: history.step_seconds * 1_000,
    steps: points.length,
    at,
    onAt,
  };
  const lowest = Math.min(...points.map((p) => p.ready ?? Infinity));
  const slowest = Math.max(0, ...points.map((p) => p.provision_ms ?? 0));
  const made = total((p) => p.provisions);
  const mean = made === 0 ? 0 : total((p) => (p.provision_ms ?? 0) * (p.provisions ?? 0)) / made;
  const took = now ? mean : (shown.provision_ms ?? 0);
  return (
    <div className="grid gap-x-10 gap-y-7 md:grid-cols-2">
      <Plot
        {...frame}
        title="Ready"
        top={top([...of.desired, ...of.built])}
        label={`Ready of desired: ${said(shown.ready)} of ${said(shown.desired)}${Number.isFinite(lowest) ? `, at the least ${lowest}` : ""}`}
        legend={
          <>
            <Mark as="dashed" colour="text-ink" name="desired" value={said(shown.desired)} />
            <Mark as="area" colour="text-ready" name="ready" value={said(shown.ready)} />
            <Mark as="hatch" colour="text-starting" name="building" value={said(shown.starting)} />
          </>
        }
      >
        {(scale) => (
          <>
            <pattern id={hatch} width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <line x1="0" x2="0" y1="0" y2="5" className="stroke-starting" strokeWidth="1.4" />
            </pattern>
            <path d={block(of.built, of.ready, scale)} fill={`url(#${hatch})`} />
            <path d={block(of.ready, of.none, scale)} className="fill-ready" fillOpacity="0.22" />
            <path d={stairs(of.ready, scale)} className="stroke-ready" fill="none" strokeWidth="1.5" />
            <path d={stairs(of.desired, scale)} className="stroke-ink" fill="none" strokeWidth="1.5" strokeDasharray="5 4" />
          </>
        )}
      </Plot>
      <Plot
        {...frame}
        title={now ? `Claims in ${whole}` : "Claims"}
        top={top(points.map((p) => p.claims), 4)}
        label={`Claims: ${claims}, of them ${hits} hits`}
        empty={total((p) => p.claims) === 0 ? "No claims counted so far" : undefined}
        legend={
          <>
            <Mark as="bar" colour="text-ready" name="hits" value={hits} />
            <Mark as="outline" colour="text-failed" name="misses" value={claims - hits} />
            <span className="whitespace-nowrap">
              hit rate <b className="font-semibold text-ink">{percent(hits, claims)}</b>
            </span>
          </>
        }
      >
        {({ x, y }) => {
          const wide = Math.max(1, x(1) - x(0) - (x(1) - x(0) > 3 ? 1 : 0));
          return points.map((p, i) => {
            const all = p.claims ?? 0;
            const good = p.hits ?? 0;
            if (all === 0) return null;
            const missed = Math.max(2, y(good) - y(all));
            return (
              <g key={i}>
                {good > 0 && <rect x={x(i)} y={y(good)} width={wide} height={y(0) - y(good)} className="fill-ready" />}
                {all > good && (
                  <rect
                    x={x(i) + 0.5}
                    y={y(good) - missed}
                    width={Math.max(1, wide - 1)}
                    height={Math.max(1, missed - 0.5)}
                    className="fill-surface stroke-failed"
                  />
                )}
              </g>
            );
          });
        }}
      </Plot>
      <Plot
        {...frame}
        title="Claimed"
        top={top(of.claimed, 4)}
        label={`Claimed: ${said(shown.claimed)}, at the most ${Math.max(0, ...of.claimed.map((v) => v ?? 0))}`}
        legend={<Mark as="area" colour="text-claimed" name="in use" value={said(shown.claimed)} />}
      >
        {(scale) => (
          <>
            <path d={block(of.claimed, of.none, scale)} className="fill-claimed" fillOpacity="0.2" />
            <path d={stairs(of.claimed, scale)} className="stroke-claimed" fill="none" strokeWidth="1.5" />
          </>
        )}
      </Plot>
      <Plot
        {...frame}
        title="Time until ready"
        top={time(slowest)}
        empty={made === 0 ? "No builds counted so far" : undefined}
        format={(ms) => (ms === 0 ? "0" : duration(ms))}
        label={made === 0 ? "Time until ready: nothing was built" : `Time until ready: ${duration(mean)} on average, of ${made}`}
        legend={<Mark as="dot" colour="text-starting" name="on average" value={took > 0 ? duration(took) : "–"} />}
      >
        {({ x, y }) =>
          points.map((p, i) =>
            p.provision_ms ? <circle key={i} cx={x(i + 0.5)} cy={y(p.provision_ms)} r="2.5" className="fill-starting" /> : null,
          )
        }
      </Plot>
    </div>
  );
}

const said = (value: Value) => (value === undefined ? "–" : value);

/** time is the top of an axis of times: what is round in seconds, minutes or hours. */
export function time(most: number): number {
  const unit = most >= 3_600_000 ? 3_600_000 : most >= 60_000 ? 60_000 : 1_000;
  return most === 0 ? 1_000 : most < 1_000 ? top([most]) : top([most / unit]) * unit;
}

/** Numbers is the same as a table, for whoever would rather read. Only steps in which there is something to tell. */
function Numbers({ history }: { history: PresetHistory }) {
  const [open, setOpen] = useState(false);
  const told = history.points.filter((p, i, all) => {
    const before = all[i - 1];
    const same = before && before.ready === p.ready && before.desired === p.desired && before.claimed === p.claimed && before.starting === p.starting;
    return !same || p.claims || p.provisions;
  });
  return (
    <details className="mt-4 text-sm" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary className="w-fit text-ink-2">The same in numbers</summary>
      {open && (
        <div className="mt-3 max-h-80 overflow-auto rounded-lg border border-line" tabIndex={0} role="region" aria-label="Numbers over time">
          <table className="w-full text-right text-xs tabular-nums">
            <thead className="sticky top-0 bg-sunken text-ink-2">
              <tr>
                {["From", "Desired", "Ready", "Building", "Claimed", "Claims", "Hits", "Until ready"].map((name) => (
                  <th key={name} scope="col" className="px-3 py-2 font-medium first:text-left">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody className="divide-y divide-line">
              {told.toReversed().map((p) => (
                <tr key={p.at}>
                  <th scope="row" className="px-3 py-1.5 text-left font-normal whitespace-nowrap">
                    {minutes(p.at)}
                  </th>
                  {[p.desired, p.ready, p.starting, p.claimed, p.claims ?? 0, p.hits ?? 0].map((v, i) => (
                    <td key={i} className="px-3 py-1.5">
                      {said(v)}
                    </td>
                  ))}
                  <td className="px-3 py-1.5 whitespace-nowrap">{p.provision_ms ? duration(p.provision_ms) : "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
