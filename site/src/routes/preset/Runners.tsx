import { Link } from "@tanstack/react-router";
import { Bar } from "../../components/Bar";
import { Facts } from "../../components/Facts";
import { Section } from "../../components/Page";
import { Badge } from "../../components/StateBadge";
import type { ForgeEntity, Preset, Runner, RunnerSettings } from "../../generated/api";
import { useForges } from "../../services/forges";
import { useRead } from "../../services/query";
import { useNow } from "../../services/time";
import { standing, statusOf, tally } from "../jobs/jobs";
import { Labels } from "../jobs/JobsView";

/** Runners is what a preset of runners has at its forge, and what waits for it. */
export function Runners({ preset, settings }: { preset: Preset; settings: RunnerSettings }) {
  const forge = useForges()?.find((f) => f.name === settings.forge);
  const of = { template: preset.template, preset: preset.preset };
  const runners = useRead("list-runners", { params: { ...of, limit: 500 } });
  return <RunnersCard preset={preset} settings={settings} forge={forge} runners={runners.data?.runners} />;
}

interface Props {
  preset: Pick<Preset, "template" | "preset" | "actual" | "starting" | "claimed" | "queued">;
  settings: RunnerSettings;
  forge?: ForgeEntity | undefined;
  runners?: readonly Runner[] | undefined;
}

export function RunnersCard({ preset: p, settings: s, forge, runners }: Props) {
  const now = useNow();
  const of = { template: p.template, preset: p.preset };
  return (
    <Section
      title="Runners"
      beside={
        <Link to="/jobs" search={of} className="link">
          Its jobs
        </Link>
      }
    >
      {s.maximum ? <Room preset={p} maximum={s.maximum} /> : null}
      <Facts
        facts={[
          [
            "Forge",
            <span key="forge" className="inline-flex flex-wrap items-center justify-end gap-2">
              <Link to="/jobs" search={{ show: "forges" }} className="link">
                {s.forge}
              </Link>
              {forge && <Badge {...standing(forge, now)} />}
            </span>,
          ],
          ["Labels", <Labels key="labels" labels={s.labels} />],
          ["Group", s.group],
          ["Jobs that wait", p.queued ?? 0],
          ...tally(runners ?? []).map(
            ({ status, count }) =>
              [
                `Runners ${statusOf({ status }).text}`,
                <Link key={status} to="/jobs" search={{ ...of, show: "runners", status }} className="link">
                  {count}
                </Link>,
              ] as const,
          ),
        ]}
      />
      {runners?.length === 0 && <p className="mt-2 text-sm text-ink-2">None is there now.</p>}
    </Section>
  );
}

/** Room is how many of the runners that there may be are busy, and how many there are beside. */
function Room({ preset: p, maximum }: { preset: Props["preset"]; maximum: number }) {
  const free = p.actual + p.starting;
  const label = `${p.claimed} busy, ${free} ready or being built, of at most ${maximum}`;
  return (
    <div className="mb-3">
      <Bar
        parts={[
          { name: "busy", value: p.claimed, colour: "text-claimed" },
          { name: "free", value: free, colour: "text-ready", hatched: true },
        ]}
        whole={maximum}
        label={label}
      />
      <p className="mt-1 text-xs text-ink-2">{label}</p>
    </div>
  );
}
