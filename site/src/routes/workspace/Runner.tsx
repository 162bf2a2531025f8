import { Link } from "@tanstack/react-router";
import { Facts } from "../../components/Facts";
import { Section } from "../../components/Page";
import { Badge } from "../../components/StateBadge";
import { RelativeTime } from "../../components/Time";
import type { Runner as Read } from "../../generated/api";
import { useRead } from "../../services/query";
import { conclusion, statusOf } from "../jobs/jobs";
import { JobLink, Labels } from "../jobs/JobsView";

/** Runner is what the forge says of the workspace as a runner, and its job. */
export function Runner({ name }: { name: string }) {
  const runner = useRead("get-runner", { params: { runner: name } });
  return runner.data ? <RunnerCard runner={runner.data} /> : null;
}

export function RunnerCard({ runner: r }: { runner: Read }) {
  const j = r.job;
  return (
    <Section title="Runner" beside={<Badge {...statusOf(r)} />}>
      <Facts
        facts={[
          [
            "Forge",
            <Link key="forge" to="/jobs" search={{ show: "forges" }} className="link">
              {r.entity}
            </Link>,
          ],
          ["Labels", <Labels key="labels" labels={r.labels} />],
          ["Registered", r.registered_at ? <RelativeTime at={r.registered_at} /> : "not yet"],
          ["Job", j ? <JobLink job={j} /> : "none yet"],
          ["Of", j?.repository],
          ["Outcome", j?.state === "completed" && <Badge {...conclusion(j)} />],
          ["Started", j?.started_at && <RelativeTime at={j.started_at} />],
        ]}
      />
    </Section>
  );
}
