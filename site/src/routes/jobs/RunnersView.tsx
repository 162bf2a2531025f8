import { Link } from "@tanstack/react-router";
import { Badge, StateBadge } from "../../components/StateBadge";
import { Table } from "../../components/Table";
import { RelativeTime } from "../../components/Time";
import type { Runner } from "../../generated/api";
import { statusOf } from "./jobs";
import { ForgeLink, JobLink, Pool } from "./JobsView";

/** RunnersView is a table of runners: what their forge says of each, and what its workspace is in. */
export function RunnersView({ runners }: { runners: readonly Runner[] }) {
  return (
    <Table
      label="Runners"
      rows={runners}
      keyOf={(r) => `${r.workspace_id} ${r.created_at}`}
      columns={[
        {
          title: "Runner",
          cell: (r) => (
            <Link to="/workspaces/$workspace" params={{ workspace: r.name }} className="link font-mono text-xs break-all">
              {r.name}
            </Link>
          ),
        },
        { title: "At the forge", cell: (r) => <Badge {...statusOf(r)} /> },
        { title: "Workspace", cell: (r) => <StateBadge state={r.state} /> },
        { title: "Job", cell: (r) => r.job && r.status !== "gone" && <JobLink job={r.job} /> },
        { title: "Pool", cell: (r) => <Pool of={r} /> },
        { title: "Forge", cell: (r) => <ForgeLink name={r.entity} /> },
        {
          title: "Registered",
          cell: (r) => (r.registered_at ? <RelativeTime at={r.registered_at} /> : <span className="text-ink-2">not yet</span>),
          right: true,
        },
      ]}
    />
  );
}
