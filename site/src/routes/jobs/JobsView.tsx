import { Link } from "@tanstack/react-router";
import { FilterChoice, Filters, FilterWords, Narrowed } from "../../components/Filters";
import { Badge } from "../../components/StateBadge";
import { EmptyState } from "../../components/Status";
import { Table, type Column } from "../../components/Table";
import { Duration, RelativeTime, Since } from "../../components/Time";
import type { ForgeJob, ForgeJobCounts } from "../../generated/api";
import { conclusion, took, web } from "./jobs";

export type Show = "in_progress" | "completed" | "runners" | "forges";

export interface JobSearch {
  /** Queued jobs where it is left out. */
  show?: Show | undefined;
  q?: string | undefined;
  forge?: string | undefined;
  template?: string | undefined;
  preset?: string | undefined;
  /** Of runners. */
  status?: "pending" | "idle" | "active" | "offline" | "gone" | undefined;
}

const tabs: readonly (readonly [show: Show | undefined, name: string, count?: "queued" | "in_progress" | "completed"])[] = [
  [undefined, "Queued", "queued"],
  ["in_progress", "In progress", "in_progress"],
  ["completed", "Completed", "completed"],
  ["runners", "Runners"],
  ["forges", "Forges"],
];

/** Tabs are the parts of the page; each is a link, so that it can be opened beside. */
export function Tabs({ search, counts }: { search: JobSearch; counts: ForgeJobCounts | undefined }) {
  return (
    <nav aria-label="Jobs, runners and forges" className="-mb-2 flex flex-wrap border-b sm:gap-1 border-line">
      {tabs.map(([show, name, count]) => (
        <Link
          key={name}
          to="/jobs"
          search={{ ...search, show, status: undefined }}
          activeOptions={{ exact: true, includeSearch: false }}
          aria-current={search.show === show ? "page" : undefined}
          className={`-mb-px rounded-t-lg border-b-2 px-2 py-2 sm:px-3.5 text-sm font-medium ${search.show === show ? "border-accent text-ink" : "border-transparent text-ink-2 hover:text-ink"}`}
        >
          {name}
          {count && counts && (
            <span className="ml-1.5 tabular-nums" title={count === "completed" ? "in the last 24 hours" : undefined}>
              {counts[count]}
            </span>
          )}
        </Link>
      ))}
    </nav>
  );
}

export function JobFilters({ search, forges, onChange }: {
  search: JobSearch;
  forges: readonly string[];
  onChange: (change: Partial<JobSearch>) => void;
}) {
  if (search.show === "forges") return null;
  return (
    <Filters>
      <FilterWords of={search.show === "runners" ? "Name, pool, label, job" : "Repository, job, label, pool"} value={search.q} onChange={(q) => onChange({ q })} />
      <FilterChoice
        label="Forge"
        value={search.forge}
        onChange={(forge) => onChange({ forge })}
        options={[...new Set([...forges, ...(search.forge ? [search.forge] : [])])].map((name) => [name, name] as const)}
      />
      {search.show === "runners" && (
        <FilterChoice
          label="At the forge"
          value={search.status}
          onChange={(v) => onChange({ status: v as JobSearch["status"] })}
          options={[
            ["pending", "not registered yet"],
            ["idle", "idle"],
            ["active", "at a job"],
            ["offline", "offline"],
            ["gone", "gone"],
          ]}
        />
      )}
      <Narrowed
        by={[
          ["Template", search.template, () => onChange({ template: undefined })],
          ["Preset", search.preset, () => onChange({ preset: undefined })],
        ]}
      />
    </Filters>
  );
}

/** NoForge is for who has none: what to do first. */
export function NoForge() {
  return (
    <EmptyState icon="job" title="No forge is connected yet">
      Jobs of GitHub and Gitea run on prewarmed workspaces once their repository or organization is known here.
      Add a credential and a forge, have the webhook installed, and give a preset a <code>runner</code> block. On the command line:{" "}
      <code>prewarm forge credential add</code>, <code>prewarm forge add</code>, <code>prewarm forge webhook install</code>.
    </EmptyState>
  );
}

/** NoJobs is what stands in the place of a list without one. */
export function NoJobs({ search }: { search: JobSearch }) {
  if (search.q || search.forge || search.template || search.preset || search.status) {
    return <EmptyState icon="search" title={search.show === "runners" ? "No runner matches" : "No job matches"} />;
  }
  switch (search.show) {
    case "in_progress":
      return <EmptyState icon="check" title="No job is running" />;
    case "completed":
      return <EmptyState icon="job" title="No job has ended yet">What ended stays here for a month.</EmptyState>;
    case "runners":
      return (
        <EmptyState icon="job" title="There is no runner now">
          A preset with a <code>runner</code> block has runners: as many idle ones as its <code>instances</code>, and more while
          jobs wait.
        </EmptyState>
      );
    default:
      return <EmptyState icon="check" title="No job waits">Every job that the forges reported has a runner.</EmptyState>;
  }
}

const job: Column<ForgeJob> = { title: "Job", cell: (j) => <Title job={j} /> };
const labels: Column<ForgeJob> = { title: "Labels", cell: (j) => <Labels labels={j.labels} /> };
const forge: Column<ForgeJob> = { title: "Forge", cell: (j) => <ForgeLink name={j.entity} /> };
const pool: Column<ForgeJob> = { title: "Pool", cell: (j) => <Pool of={j} /> };
const poolOrDelay: Column<ForgeJob> = {
  title: "Pool",
  cell: (j) => (
    <>
      <Pool of={j} />
      {j.delay && <span className="block text-xs break-words text-ink-2">{j.delay.text}</span>}
    </>
  ),
};
const runner: Column<ForgeJob> = { title: "Runner", cell: (j) => <RunsOn job={j} /> };
const waits: Column<ForgeJob> = { title: "Waits for", cell: (j) => <Since at={j.queued_at} />, right: true };
const waited: Column<ForgeJob> = { title: "Waited", cell: (j) => <Duration ms={j.wait_s * 1_000} />, right: true };

const columns = {
  unserved: [job, labels, { title: "Why", cell: (j: ForgeJob) => <span className="break-words">{j.unserved}</span> }, forge, waits],
  queued: [job, labels, poolOrDelay, forge, waits],
  in_progress: [
    job,
    pool,
    runner,
    waited,
    { title: "Runs for", cell: (j: ForgeJob) => j.started_at && <Since at={j.started_at} />, right: true },
  ],
  completed: [
    job,
    { title: "Outcome", cell: (j: ForgeJob) => <Badge {...conclusion(j)} /> },
    pool,
    runner,
    waited,
    { title: "Ran for", cell: (j: ForgeJob) => <Ran job={j} />, right: true },
    { title: "Ended", cell: (j: ForgeJob) => j.completed_at && <RelativeTime at={j.completed_at} />, right: true },
  ],
} satisfies Record<string, Column<ForgeJob>[]>;

const names = {
  unserved: "Jobs that nothing can serve",
  queued: "Queued jobs",
  in_progress: "Jobs in progress",
  completed: "Completed jobs",
};

/** JobsView is a table of jobs of one kind. */
export function JobsView({ kind, jobs }: { kind: keyof typeof columns; jobs: readonly ForgeJob[] }) {
  return <Table label={names[kind]} rows={jobs} keyOf={(j) => j.id} columns={columns[kind]} />;
}

/** Title is a job's name, which leads to its page at the forge, and where it is from. */
function Title({ job: j }: { job: ForgeJob }) {
  return (
    <span className="block min-w-0">
      <JobLink job={j} />
      <span className="block text-xs break-words text-ink-2">
        {j.repository}
        {j.workflow && `, ${j.workflow}`}
        {j.attempt > 1 && `, attempt ${j.attempt}`}
      </span>
    </span>
  );
}

/** JobLink leads to a job's page at the forge, where it has one. */
export function JobLink({ job: j }: { job: Pick<ForgeJob, "name" | "url" | "job_id"> }) {
  const name = j.name || `job ${j.job_id}`;
  const url = web(j.url);
  return url ? (
    <a href={url} target="_blank" rel="noreferrer" className="link font-medium break-words">
      {name}
    </a>
  ) : (
    <span className="font-medium break-words">{name}</span>
  );
}

export function Labels({ labels: all }: { labels: readonly string[] }) {
  return (
    <ul className="flex flex-wrap justify-end gap-1 md:justify-start" aria-label="Labels">
      {all.map((l) => (
        <li key={l} className="rounded bg-sunken px-1.5 py-0.5 font-mono text-2xs break-all">
          {l}
        </li>
      ))}
    </ul>
  );
}

export function ForgeLink({ name }: { name: string }) {
  return name ? (
    <Link to="/jobs" search={{ show: "forges" }} className="link">
      {name}
    </Link>
  ) : (
    <span className="text-ink-2">deleted</span>
  );
}

/** Pool is whose demand a job is, or whose runner it has. */
export function Pool({ of }: { of: Pick<ForgeJob, "template" | "preset"> }) {
  if (!of.template || !of.preset) return <span className="text-ink-2">none of ours</span>;
  return (
    <Link to="/presets/$template/$preset" params={{ template: of.template, preset: of.preset }} className="link">
      {of.template}/{of.preset}
    </Link>
  );
}

function RunsOn({ job: j }: { job: ForgeJob }) {
  if (!j.runner) return <span className="text-ink-2">none</span>;
  if (!j.workspace_id) return <span className="break-all">{j.runner}</span>;
  return (
    <Link to="/workspaces/$workspace" params={{ workspace: j.runner }} className="link font-mono text-xs break-all">
      {j.runner}
    </Link>
  );
}

function Ran({ job: j }: { job: ForgeJob }) {
  const ms = took(j);
  return ms === undefined ? <span className="text-ink-2">never</span> : <Duration ms={ms} />;
}
