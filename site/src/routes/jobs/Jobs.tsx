import { useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Page, Section } from "../../components/Page";
import { More } from "../../components/More";
import { ErrorState, Loading, Notice } from "../../components/Status";
import type { ForgeJob } from "../../generated/api";
import { usePages } from "../../services/pages";
import { useAct, useRead } from "../../services/query";
import { useMay } from "../../services/session";
import { Connect } from "./Connect";
import { ForgesView } from "./ForgesView";
import { JobFilters, JobsView, NoForge, NoJobs, Tabs, type JobSearch } from "./JobsView";
import { RunnersView } from "./RunnersView";
import { WebhookDialog } from "./Webhook";

/** Jobs are those of the forges, the runners that they run on, and how it goes with the forges. */
export function Jobs() {
  const search = useSearch({ from: "/inside/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  const forges = useRead("list-forges");
  const counts = useRead("list-forge-jobs", { params: { forge: search.forge, limit: 1 } });
  const narrow = (change: Partial<JobSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true, resetScroll: false });
  const none = forges.data?.length === 0 && (counts.data?.jobs.length ?? 0) === 0;
  return (
    <Page title="Jobs" lead="CI jobs, their runners and forge connections.">
      {forges.error && <ErrorState error={forges.error} retry={() => void forges.refetch()} />}
      {forges.isPending && <Loading lines={6} />}
      {none && <NoForge />}
      {forges.data && !none && (
        <>
          <Tabs search={search} counts={counts.data?.counts} />
          <JobFilters search={search} forges={forges.data.map((f) => f.name)} onChange={narrow} />
          <Shown search={search} held={counts.data?.counts.waiting ?? 0} />
        </>
      )}
      {/* One place for both, so that its dialog stays while the first forge is added. */}
      {forges.data && (none || search.show === "forges") && (
        <Connect forges={forges.data} onAdd={() => narrow({ show: "forges" })} />
      )}
    </Page>
  );
}

function Shown({ search, held }: { search: JobSearch; held: number }) {
  switch (search.show) {
    case "runners":
      return <Runners search={search} />;
    case "forges":
      return <Forges />;
    case "in_progress":
    case "completed":
      return <List search={search} kind={search.show} />;
    default:
      return <Queued search={search} held={held} />;
  }
}

const narrowed = ({ q, forge, template, preset }: JobSearch) => ({ q, forge, template, preset, limit: 100 });

/** Queued are those that wait, first those that would wait for ever. */
function Queued({ search, held }: { search: JobSearch; held: number }) {
  const unserved = usePages("list-forge-jobs", { ...narrowed(search), unserved: true });
  const first = unserved.data?.pages.flatMap((p) => p.jobs) ?? [];
  return (
    <>
      {held > 0 && (
        <Notice icon="pause">
          {held === 1 ? "1 more job is" : `${held} more jobs are`} held back by the forge, for an approval or for others of its
          concurrency group: no demand yet.
        </Notice>
      )}
      {first.length > 0 && (
        <Section title="Nothing can serve these">
          <div className="flex flex-col gap-3">
            <JobsView kind="unserved" jobs={first} />
            <More of={unserved} shown={first.length} what="job" />
          </div>
        </Section>
      )}
      <List
        search={search}
        kind="queued"
        of={(j) => !j.unserved}
        none={first.length > 0 ? <p className="text-ink-2">No other job waits.</p> : undefined}
      />
    </>
  );
}

/** List is jobs of one state, page by page. */
function List({ search, kind, of = () => true, none }: {
  search: JobSearch;
  kind: "queued" | "in_progress" | "completed";
  of?: (job: ForgeJob) => boolean;
  none?: ReactNode;
}) {
  const list = usePages("list-forge-jobs", { ...narrowed(search), state: kind });
  const jobs = list.data?.pages.flatMap((p) => p.jobs).filter(of);
  return (
    <>
      {list.error && <ErrorState error={list.error} retry={() => void list.refetch()} />}
      {list.isPending && <Loading lines={6} />}
      {jobs?.length === 0 && !list.hasNextPage && (none ?? <NoJobs search={search} />)}
      {jobs && jobs.length > 0 && <JobsView kind={kind} jobs={jobs} />}
      {jobs && (jobs.length > 0 || list.hasNextPage) && (
        <More of={list} shown={jobs.length} what="job" />
      )}
    </>
  );
}

function Runners({ search }: { search: JobSearch }) {
  const list = usePages("list-runners", { ...narrowed(search), status: search.status });
  const runners = list.data?.pages.flatMap((p) => p.runners);
  return (
    <>
      {list.error && <ErrorState error={list.error} retry={() => void list.refetch()} />}
      {list.isPending && <Loading lines={6} />}
      {runners?.length === 0 && <NoJobs search={search} />}
      {runners && runners.length > 0 && (
        <>
          <RunnersView runners={runners} />
          <More of={list} shown={runners.length} what="runner" />
        </>
      )}
    </>
  );
}

function Forges() {
  const may = useMay();
  const list = useRead("list-forges");
  const stop = useAct("stop-forge");
  const start = useAct("start-forge");
  if (!list.data) return <Loading lines={4} />;
  if (list.data.length === 0) return <NoForge />;
  return (
    <ForgesView
      forges={list.data}
      onStop={may("stop-forge") ? (forge, reason, drain) => stop.mutateAsync({ params: { forge }, body: { reason, drain } }) : undefined}
      onStart={may("start-forge") ? (forge) => start.mutateAsync({ params: { forge } }) : undefined}
      webhook={may("get-forge-hook") ? (forge) => <WebhookDialog forge={forge} /> : undefined}
    />
  );
}
