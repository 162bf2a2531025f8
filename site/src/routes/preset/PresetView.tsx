import type { ReactNode } from "react";
import { Icon } from "../../components/Icon";
import { Section } from "../../components/Page";
import { Progress } from "../../components/Progress";
import { Notice } from "../../components/Status";
import { RelativeTime } from "../../components/Time";
import type { Explanation, LedgerLine, Preset, PresetDurations, Rollout, Schedule, WorkspaceList } from "../../generated/api";
import { duration } from "../../services/time";
import { Slots } from "./Slots";
import { Week } from "./Week";

interface Props {
  preset: Preset;
  explanation?: Explanation;
  workspaces?: WorkspaceList;
  durations?: PresetDurations;
  schedule?: Schedule;
  /** Sections with data or buttons of their own. */
  history?: ReactNode;
  failures?: ReactNode;
  size?: ReactNode;
  nudge?: ReactNode;
  runners?: ReactNode;
}

/** PresetView is the looks of the page of a preset. */
export function PresetView({ preset, explanation, workspaces, durations, schedule, history, failures, size, nudge, runners }: Props) {
  return (
    <>
      {preset.error && <Notice tone="bad">The last pass failed for this preset: {preset.error}</Notice>}
      {preset.paused && (
        <Notice tone="warning" icon="pause">
          Paused ({preset.paused})
          {preset.paused_until && (
            <>
              , until <RelativeTime at={preset.paused_until} />
            </>
          )}
          . Claims go on.
        </Notice>
      )}
      {preset.rollout && <Rolling rollout={preset.rollout} version={preset.version} />}
      {failures}
      <Slots preset={preset} workspaces={workspaces} />
      {history}
      <div className="grid gap-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)] lg:items-start">
        <div className="flex min-w-0 flex-col gap-6">
          {explanation && <Ledger explanation={explanation} nudge={nudge} />}
          {schedule && <Week schedule={schedule} />}
          {size && <Facts preset={preset} explanation={explanation} durations={durations} />}
        </div>
        <div className="flex min-w-0 flex-col gap-6">
          {runners}
          {size || <Facts preset={preset} explanation={explanation} durations={durations} />}
        </div>
      </div>
    </>
  );
}

/** Rolling is how far a new version is. */
function Rolling({ rollout, version }: { rollout: Rollout; version: number }) {
  const stopped = rollout.phase === "stopped";
  return (
    <Notice tone={stopped ? "bad" : "plain"} icon={stopped ? "alert" : "refresh"}>
      <p>
        Version {version} {stopped ? `does not roll out: ${rollout.reason ?? "it does not become ready"}` : "rolls out"}: {rollout.ready} of{" "}
        {rollout.desired} ready, {rollout.outdated} of older versions left.
      </p>
      <Progress done={rollout.ready} of={rollout.desired} label={`${rollout.ready} of ${rollout.desired} ready`} />
    </Notice>
  );
}

/** Ledger is how the last decision came about, in lines that add up. */
function Ledger({ explanation, nudge }: { explanation: Explanation; nudge?: ReactNode }) {
  return (
    <Section
      title="Why this state"
      beside={
        <span className="flex items-center gap-3">
          {explanation.warm_at && (
            <span className="flex items-center gap-1.5">
              <Icon name="clock" /> warm <RelativeTime at={explanation.warm_at} />
            </span>
          )}
          {nudge}
        </span>
      }
    >
      {explanation.lines.length === 0 ? (
        <p className="text-ink-2">Nothing to decide: the pool is empty and desires nothing.</p>
      ) : (
        <ol className="-my-1 divide-y divide-line">
          {explanation.lines.map((line, i) => (
            <Entry key={i} line={line} />
          ))}
        </ol>
      )}
    </Section>
  );
}

function Entry({ line }: { line: LedgerLine }) {
  return (
    <li className="grid grid-cols-[3.5rem_minmax(0,1fr)] items-baseline gap-3 py-2">
      <span className="text-right font-mono text-sm font-semibold tabular-nums">{signed(line.count)}</span>
      <span className="min-w-0 break-words">
        {line.sentence || line.label}
        {line.rule && (
          <span className="ml-2 rounded border border-line px-1.5 py-0.5 font-mono text-2xs text-ink-2" title="Rule of the design">
            {line.rule}
          </span>
        )}
        {(line.expected || line.expected_at) && (
          <span className="block text-sm text-ink-2">
            {line.expected ?? (line.expected_at && <RelativeTime at={line.expected_at} />)}
          </span>
        )}
      </span>
    </li>
  );
}

const signed = (n: number) => (n < 0 ? `−${-n}` : String(n));

function Facts({ preset, explanation, durations }: { preset: Preset; explanation?: Explanation; durations?: PresetDurations }) {
  const facts: [string, string][] = [
    ["Provider", preset.provider],
    ["Version", String(preset.version)],
    ["Priority", String(preset.priority)],
  ];
  if (explanation?.provision_ms) {
    facts.push(["Usual time until ready", `${duration(explanation.provision_ms)}, of ${explanation.measured}`]);
  }
  for (const { state, p50_ms, p95_ms, measured } of durations?.states ?? []) {
    if (state === "starting" || state === "deleting") {
      facts.push([`Usually ${state}`, `${duration(p50_ms)}, 95 % within ${duration(p95_ms)}, of ${measured}`]);
    }
  }
  if (preset.ttl) facts.push(["Time to live", preset.ttl]);
  for (const [name, value] of Object.entries(preset.parameters)) facts.push([name, value]);
  return (
    <Section title="Settings">
      <dl className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)] gap-x-6 gap-y-1.5 text-sm">
        {facts.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-ink-2">{name}</dt>
            <dd className="text-right break-words">{value}</dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}
