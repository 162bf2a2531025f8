import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";
import { percent } from "../../components/Hours";
import { Section } from "../../components/Page";
import type { PresetReplay, PresetSize, SizeOutcome } from "../../generated/api";
import { money } from "../../services/money";
import { counted } from "../../services/words";
import { read } from "../../services/query";

/** Days that a recommendation and its replays look back. */
const days = 14;

interface Choice {
  name: string;
  size: string;
  outcome?: SizeOutcome;
  /** Under the name: what it stands for. */
  note?: string;
}

/** perDay is a sum over the range that was looked at, for one day of it. */
export function perDay(total: number, past: { from: string; to: string }): number {
  const length = (new Date(past.to).getTime() - new Date(past.from).getTime()) / 86_400_000;
  return length > 0 ? total / length : 0;
}

/** idle is what an outcome costs in a day: in money where the template has a price, else in hours of idle prebuilds. */
export function idle(outcome: SizeOutcome, past: { from: string; to: string; idle_cost_per_hour: number }): string {
  if (past.idle_cost_per_hour > 0) {
    return `${money(perDay(outcome.idle_cost, past))} a day`;
  }
  const hours = perDay(outcome.idle_hours, past);
  return `${hours.toLocaleString(undefined, { maximumFractionDigits: hours < 10 ? 1 : 0 })} h a day`;
}

/** SizeCard is how large the pool is and should be, by its claims; and what any other size would have made of them. */
export function SizeCard({ size, params, resize }: {
  size: PresetSize;
  params: { template: string; preset: string };
  /** The button that leads to another number of instances. */
  resize?: (instances: number) => ReactNode;
}) {
  const [wanted, setWanted] = useState<number>();
  const tried = useSettled(wanted ?? size.recommended);
  const now = useReplay(params, -1);
  const other = useReplay(params, tried);
  return <SizeView size={size} now={now.data} other={other.data} tried={wanted ?? size.recommended} onTry={setWanted} resize={resize} />;
}

/** useSettled is a value once it has been the same for a moment: a slider that is dragged asks once, and not at each number. */
function useSettled(value: number): number {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 200);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** useReplay plays the past again. It costs the server some work, and says the same for as long as nobody looks anew. */
function useReplay(params: { template: string; preset: string }, instances: number) {
  const { queryKey, queryFn } = read("replay-preset", { params: { ...params, days, instances } });
  return useQuery({ queryKey, queryFn, placeholderData: keepPreviousData, staleTime: 300_000, refetchInterval: 300_000 });
}

interface ViewProps {
  size: PresetSize;
  now?: PresetReplay;
  other?: PresetReplay;
  tried: number;
  onTry: (instances: number) => void;
  resize?: (instances: number) => ReactNode;
}

/** SizeView is the looks of it. */
export function SizeView({ size, now, other, tried, onTry, resize }: ViewProps) {
  const auto = size.autosize;
  const applied = auto?.mode === "apply";
  const most = Math.max(10, 2 * size.recommended, 2 * size.instances, tried);
  const choices: Choice[] = [
    { name: "Now", size: String(size.instances), outcome: now?.outcomes[0], note: applied ? "where autosize is silent" : "instances" },
    { name: "Recommended", size: String(size.recommended), outcome: size.outcomes[0], note: `for ${+(size.target * 100).toFixed(3)} % hits` },
  ];
  if (auto) {
    const adaptive = size.outcomes.find((o) => o.size === "autosize");
    choices.push({
      name: "Autosize",
      size: auto.size === undefined ? "–" : String(auto.size),
      outcome: adaptive,
      note: `${auto.mode}, ${auto.min} to ${auto.max}`,
    });
  }
  const unit = size.idle_cost_per_hour > 0 ? "Idle costs" : "Idle";
  return (
    <Section title="Size" beside={`by ${size.claims} ${size.claims === 1 ? "claim" : "claims"} of ${span(size)}`}>
      <ul className={`grid gap-x-6 gap-y-4 ${choices.length > 2 ? "sm:grid-cols-3" : "grid-cols-2"}`}>
        {choices.map((c) => (
          <li key={c.name} className="min-w-0">
            <p className="text-sm text-ink-2">{c.name}</p>
            <p className="text-2xl font-semibold tracking-tight tabular-nums">{c.size}</p>
            {c.note && <p className="text-xs text-ink-2">{c.note}</p>}
            <Outcome outcome={size.claims > 0 ? c.outcome : undefined} past={size} unit={unit} />
          </li>
        ))}
      </ul>
      <p className="mt-3 text-sm text-ink-2">{capital(size.why)}.</p>
      {auto?.unattainable && <p className="mt-2 text-sm">The target is not reached: {auto.unattainable}.</p>}
      <div className="mt-5 border-t border-line pt-4">
        <div className="flex flex-wrap items-baseline justify-between gap-x-4 gap-y-1">
          <label htmlFor="try" className="text-sm font-medium">
            The same claims, with another size
          </label>
          <output htmlFor="try" className="text-sm tabular-nums">
            {tried} {tried === 1 ? "instance" : "instances"}
          </output>
        </div>
        <input
          id="try"
          type="range"
          min={0}
          max={most}
          value={tried}
          onChange={(e) => onTry(Number(e.target.value))}
          className="mt-2 w-full"
        />
        <Outcome outcome={size.claims > 0 ? other?.outcomes[0] : undefined} past={size} unit={unit} wide />
        {size.claims === 0 && <p className="text-sm text-ink-2">Nothing was claimed, so there is nothing to play again.</p>}
        {resize && <div className="mt-4">{resize(tried)}</div>}
      </div>
    </Section>
  );
}

function Outcome({ outcome, past, unit, wide = false }: { outcome?: SizeOutcome; past: PresetSize; unit: string; wide?: boolean }) {
  if (!outcome) return null;
  return (
    <dl className={`mt-1.5 text-xs text-ink-2 ${wide ? "grid grid-cols-2 gap-x-6" : ""}`}>
      <div>
        <dt className="sr-only">Probability of a hit</dt>
        <dd>
          <span className="block h-1.5 overflow-hidden rounded-full bg-sunken" aria-hidden="true">
            <span className="block h-full bg-ready" style={{ width: `${outcome.hit_rate * 100}%` }} />
          </span>
          <span className="mt-1 block tabular-nums">
            <b className="font-semibold text-ink">{percent(outcome.hit_rate * 1_000, 1_000)}</b> hits
          </span>
        </dd>
      </div>
      <div className={wide ? "self-end" : ""}>
        <dt className="inline">{unit} </dt>
        <dd className="inline font-medium whitespace-nowrap text-ink tabular-nums">{idle(outcome, past)}</dd>
      </div>
    </dl>
  );
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

function span(past: { from: string; to: string }): string {
  const hours = (new Date(past.to).getTime() - new Date(past.from).getTime()) / 3_600_000;
  return hours < 48 ? `${Math.max(1, Math.round(hours))} h` : counted(Math.round(hours / 24), "day");
}
