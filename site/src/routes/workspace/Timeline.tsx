import { Icon } from "../../components/Icon";
import { Section } from "../../components/Page";
import { colourOf, StateBadge } from "../../components/StateBadge";
import { Duration, RelativeTime, Since } from "../../components/Time";
import type { StateDuration, Transition } from "../../generated/api";
import { duration } from "../../services/time";

/** width of the bar of a time that lasted, in per cent: by its square root, so that short ones are to be seen beside long ones. */
export function width(ms: number, longest: number): number {
  return longest <= 0 ? 0 : Math.max(1, Math.min(100, Math.sqrt(ms / longest) * 100));
}

/** Fewer than that say nothing about what is usual. */
const enough = 3;

/** States that end by themselves: there it says something if one takes long. */
const work: readonly string[] = ["provisioning", "starting", "draining", "deleting"];

/** Reasons that say no more than the state beside them. */
const told: readonly string[] = ["created", "ready", "claimed", "deleted"];

/** usualOf is how long a state usually lasts, where enough is known of it. */
export function usualOf(state: string, usual: readonly StateDuration[]): StateDuration | undefined {
  return usual.find((u) => u.state === state && u.measured >= enough);
}

/** slow says whether it took longer than nearly all do, and long enough to be noticed. */
export function slow(t: Transition, usual: StateDuration | undefined): boolean {
  return usual !== undefined && work.includes(t.to) && t.lasted_ms !== undefined && t.lasted_ms > Math.max(usual.p95_ms, usual.p50_ms + 1_000);
}

interface Props {
  history: readonly Transition[];
  /** How long each state lasts in the same pool. */
  usual?: readonly StateDuration[];
}

/** Timeline is every state that a workspace was in, for how long beside what is usual, and why it left the one before. */
export function Timeline({ history, usual = [] }: Props) {
  const done = history.filter((t) => work.includes(t.to));
  const longest = Math.max(0, ...done.map((t) => Math.max(t.lasted_ms ?? 0, usualOf(t.to, usual)?.p95_ms ?? 0)));
  const known = done.some((t) => t.lasted_ms !== undefined && usualOf(t.to, usual));
  return (
    <Section
      title="Timeline"
      beside={
        known && (
          <span className="flex items-center gap-1.5 text-xs">
            <span className="inline-block h-3 w-5 rounded-xs border border-line-strong" aria-hidden="true" /> usual in this pool, median to 95 %
          </span>
        )
      }
    >
      <ol className="flex flex-col">
        {history.map((t, i) => (
          <Step key={i} transition={t} last={i === history.length - 1} longest={longest} usual={usualOf(t.to, usual)} />
        ))}
      </ol>
    </Section>
  );
}

function Step({ transition: t, last, longest, usual }: {
  transition: Transition;
  last: boolean;
  longest: number;
  usual: StateDuration | undefined;
}) {
  const late = slow(t, usual);
  return (
    <li className="grid grid-cols-[1rem_minmax(0,1fr)] gap-x-3">
      <span className="flex flex-col items-center" aria-hidden="true">
        <span className={`mt-1.5 size-3 shrink-0 rounded-full border-2 border-current ${colourOf(t.to)} ${last ? "bg-current" : ""}`} />
        {!last && <span className="w-px grow bg-line" />}
      </span>
      <div className={`min-w-0 ${last ? "" : "pb-5"}`}>
        <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
          <StateBadge state={t.to} />
          <span className="text-sm text-ink-2">
            <RelativeTime at={t.at} />
            {t.actor && ` by ${t.actor}`}
          </span>
          <span className="ml-auto flex flex-wrap items-baseline justify-end gap-x-2 text-sm">
            {usual && work.includes(t.to) && (
              <span className="text-xs text-ink-2">
                usually {duration(usual.p50_ms)}
                {usual.p95_ms > usual.p50_ms * 1.05 && ` to ${duration(usual.p95_ms)}`}
              </span>
            )}
            <span className="flex items-center gap-1 font-medium">
              {late && <Icon name="alert" className="size-3.5 text-draining" />}
              {t.lasted_ms !== undefined ? <Duration ms={t.lasted_ms} /> : last && t.to !== "deleted" && <Since at={t.at} />}
              {late && <span className="sr-only">, longer than usual</span>}
            </span>
          </span>
        </div>
        {t.reason && !told.includes(t.reason) && <p className="mt-1 break-words">{t.reason}</p>}
        {(t.attempt ?? 0) > 1 && (
          <p className="mt-1 flex items-center gap-1.5 text-sm text-ink-2">
            <Icon name="refresh" className="size-3.5" /> attempt {t.attempt} of the {t.job}
          </p>
        )}
        {t.error && <p className="mt-1 font-mono text-xs break-words text-failed">{t.error}</p>}
        {t.lasted_ms !== undefined && work.includes(t.to) && (
          <span className="relative mt-2 block h-2 rounded-full bg-sunken" aria-hidden="true">
            <span className={`block h-full rounded-full bg-current ${colourOf(t.to)}`} style={{ width: `${width(t.lasted_ms, longest)}%` }} />
            {usual && (
              <span
                className="absolute -inset-y-1 rounded-xs border border-line-strong"
                style={{
                  left: `${width(usual.p50_ms, longest)}%`,
                  width: `max(3px, ${width(usual.p95_ms, longest) - width(usual.p50_ms, longest)}%)`,
                }}
              />
            )}
          </span>
        )}
      </div>
    </li>
  );
}
