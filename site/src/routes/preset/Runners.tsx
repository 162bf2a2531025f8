import { Link } from "@tanstack/react-router";
import { Facts } from "../../components/Facts";
import { Section } from "../../components/Page";
import { Badge } from "../../components/StateBadge";
import type { ForgeEntity, ForgeJobList, RunnerList } from "../../generated/api";
import { useRead } from "../../services/query";
import { useNow } from "../../services/time";
import { standing, statusOf, tally } from "../jobs/jobs";
import { Labels } from "../jobs/JobsView";

/** Runners is what the forge has of a preset of runners, and what waits for them. */
export function Runners({ template, preset, forge }: { template: string; preset: string; forge: ForgeEntity }) {
  const of = { template, preset };
  const runners = useRead("list-runners", { params: { ...of, limit: 500 } });
  const queued = useRead("list-forge-jobs", { params: { ...of, state: "queued", limit: 500 } });
  return <RunnersCard of={of} forge={forge} runners={runners.data} queued={queued.data} />;
}

interface Props {
  of: { template: string; preset: string };
  forge: ForgeEntity;
  runners?: RunnerList | undefined;
  queued?: ForgeJobList | undefined;
}

/** atLeast is the length of a page, which is not all where there is another. */
const atLeast = (n: number, next?: string) => (next ? `${n} and more` : n);

export function RunnersCard({ of, forge, runners, queued }: Props) {
  const now = useNow();
  const labels = runners?.runners[0]?.labels;
  return (
    <Section
      title="Runners"
      beside={
        <Link to="/jobs" search={of} className="link">
          Its jobs
        </Link>
      }
    >
      <Facts
        facts={[
          [
            "Forge",
            <Link key="forge" to="/jobs" search={{ show: "forges" }} className="link">
              {forge.name}
            </Link>,
          ],
          ["It", <Badge key="standing" {...standing(forge, now)} />],
          ["Labels", labels && <Labels labels={labels} />],
          ["Queued jobs", queued && atLeast(queued.jobs.length, queued.next)],
          ...tally(runners?.runners ?? []).map(
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
      {runners?.runners.length === 0 && <p className="mt-2 text-sm text-ink-2">None is there now.</p>}
    </Section>
  );
}
