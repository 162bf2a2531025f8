import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { Bar } from "../../components/Bar";
import { Confirm } from "../../components/Dialog";
import { FilterChoice, Filters, FilterText } from "../../components/Filters";
import { Badge } from "../../components/StateBadge";
import { EmptyState } from "../../components/Status";
import { Table, type Column } from "../../components/Table";
import { RelativeTime, Since } from "../../components/Time";
import type { ClaimRecord } from "../../generated/api";
import { duration, useNow } from "../../services/time";
import { leaseLeft, stages } from "./receipt";

export type State = ClaimRecord["state"];
export type Outcome = NonNullable<ClaimRecord["outcome"]>;

export interface ClaimSearch {
  state?: State | undefined;
  outcome?: Outcome | undefined;
  template?: string | undefined;
  preset?: string | undefined;
  user?: string | undefined;
}

const tabs: readonly (readonly [state: State, name: string])[] = [
  ["bound", "In use"],
  ["waiting", "Waiting"],
  ["released", "Released"],
  ["missed", "Missed"],
];

/** Tabs are the states of a claim; each is a link, so that it can be opened beside. */
export function Tabs({ search }: { search: ClaimSearch }) {
  const now = search.state ?? "bound";
  return (
    <nav aria-label="States of claims" className="-mb-2 flex flex-wrap border-b sm:gap-1 border-line">
      {tabs.map(([state, name]) => (
        <Link
          key={state}
          to="/claims"
          search={{ ...search, state: state === "bound" ? undefined : state, outcome: undefined }}
          activeOptions={{ exact: true, includeSearch: false }}
          aria-current={now === state ? "page" : undefined}
          className={`-mb-px rounded-t-lg border-b-2 px-2 py-2 sm:px-3.5 text-sm font-medium ${now === state ? "border-accent text-ink" : "border-transparent text-ink-2 hover:text-ink"}`}
        >
          {name}
        </Link>
      ))}
    </nav>
  );
}

export function ClaimFilters({ search, onChange }: { search: ClaimSearch; onChange: (change: Partial<ClaimSearch>) => void }) {
  const state = search.state ?? "bound";
  return (
    <Filters>
      <FilterText label="Template" value={search.template} onChange={(template) => onChange({ template })} />
      <FilterText label="Preset" value={search.preset} onChange={(preset) => onChange({ preset })} />
      <FilterText label="Who" value={search.user} onChange={(user) => onChange({ user })} />
      {(state === "bound" || state === "released") && (
        <FilterChoice
          label="Outcome"
          value={search.outcome}
          onChange={(v) => onChange({ outcome: v as Outcome | undefined })}
          options={[
            ["hit", "hit"],
            ["waited", "waited"],
            ["cold", "cold"],
          ]}
        />
      )}
    </Filters>
  );
}

export function NoClaims({ search }: { search: ClaimSearch }) {
  const state = search.state ?? "bound";
  const narrowed = search.template || search.preset || search.user || search.outcome;
  if (narrowed) return <EmptyState icon="search" title="No claim matches">Each filter must be the whole name.</EmptyState>;
  if (state === "waiting") return <EmptyState icon="check" title="Nobody waits">No claim is waiting for a workspace.</EmptyState>;
  if (state === "missed") return <EmptyState icon="check" title="No claim missed">Each of them got a workspace.</EmptyState>;
  if (state === "released") return <EmptyState icon="person" title="Nothing was released yet" />;
  return (
    <EmptyState icon="person" title="Nothing is claimed">
      A person, a job or an agent claims a ready workspace with <code>prewarm claim TEMPLATE/PRESET</code>.
    </EmptyState>
  );
}

const outcomes: Record<Outcome, { icon: "check" | "clock" | "building" | "cross"; colour: string }> = {
  hit: { icon: "check", colour: "text-ready" },
  waited: { icon: "clock", colour: "text-draining" },
  cold: { icon: "building", colour: "text-starting" },
  miss: { icon: "cross", colour: "text-failed" },
};

interface Props {
  state: State;
  claims: readonly ClaimRecord[];
  onRelease?: ((workspace: string) => Promise<unknown>) | undefined;
  onRenew?: ((workspace: string, lease: string) => Promise<unknown>) | undefined;
}

/** ClaimsView is a page of claims of one state. */
export function ClaimsView({ state, claims, onRelease, onRenew }: Props) {
  const pool: Column<ClaimRecord> = {
    title: "Pool",
    cell: (c) => (
      <Link to="/presets/$template/$preset" params={{ template: c.template, preset: c.preset }} className="link">
        {c.template}/{c.preset}
      </Link>
    ),
  };
  const who: Column<ClaimRecord> = { title: "Who", cell: (c) => <span className="font-medium break-words">{c.user}</span> };
  const workspace: Column<ClaimRecord> = {
    title: "Workspace",
    cell: (c) =>
      c.workspace ? (
        <Link to="/workspaces/$workspace" params={{ workspace: c.workspace }} className="link font-mono text-xs break-all">
          {c.workspace}
        </Link>
      ) : (
        <span className="text-ink-2">no longer on record</span>
      ),
  };
  const outcome: Column<ClaimRecord> = {
    title: "Outcome",
    cell: (c) =>
      c.outcome && (
        <div className="flex flex-col items-end gap-1 md:items-start">
          <Badge {...outcomes[c.outcome]} text={c.standby ? `${c.outcome}, out of standby` : c.outcome} />
          <Receipt claim={c} />
        </div>
      ),
  };
  const columns: Record<State, Column<ClaimRecord>[]> = {
    waiting: [
      { title: "Place", cell: (c) => <Place claim={c} /> },
      who,
      pool,
      { title: "Waits for", cell: (c) => <Since at={c.created_at} />, right: true },
      { title: "Gives up", cell: (c) => c.deadline_at && <RelativeTime at={c.deadline_at} />, right: true },
    ],
    bound: [
      who,
      workspace,
      pool,
      outcome,
      { title: "Claimed", cell: (c) => <RelativeTime at={c.bound_at ?? c.created_at} />, right: true },
      { title: "Lease", cell: (c) => <Lease claim={c} />, right: true },
      ...(onRelease || onRenew
        ? [{ title: "Actions", cell: (c: ClaimRecord) => <Acts claim={c} onRelease={onRelease} onRenew={onRenew} />, right: true }]
        : []),
    ],
    released: [
      who,
      workspace,
      pool,
      outcome,
      { title: "Held for", cell: (c) => held(c), right: true },
      { title: "Released", cell: (c) => c.released_at && <RelativeTime at={c.released_at} />, right: true },
    ],
    missed: [
      who,
      pool,
      { title: "Why", cell: (c) => <span className="break-words">{c.reason}</span> },
      { title: "Asked", cell: (c) => <RelativeTime at={c.created_at} />, right: true },
    ],
  };
  return <Table label={labels[state]} rows={claims} keyOf={(c) => c.claim_id} columns={columns[state]} />;
}

const labels: Record<State, string> = {
  bound: "Claims in use",
  waiting: "Waiting claims, the longest first",
  released: "Released claims",
  missed: "Missed claims",
};

function Place({ claim: c }: { claim: ClaimRecord }) {
  return (
    <span className="inline-flex items-center gap-2">
      <span className="grid size-7 place-items-center rounded-full border-2 border-draining text-sm font-semibold tabular-nums">
        {c.place}
      </span>
      <span className="text-ink-2">{c.cold ? "for one built for it" : c.place === 1 ? "next" : "in line"}</span>
    </span>
  );
}

function held(c: ClaimRecord): ReactNode {
  if (!c.bound_at || !c.released_at) return "";
  return duration(new Date(c.released_at).getTime() - new Date(c.bound_at).getTime());
}

/** Receipt is where the time of a claim went, as far as it is known. */
function Receipt({ claim }: { claim: ClaimRecord }) {
  const known = stages(claim);
  if (known.length === 0) return null;
  const text = known.map((s) => `${s.name} ${duration(s.value)}`).join(", ");
  return (
    <div className="flex w-36 flex-col gap-0.5">
      <Bar parts={known} label={text} height={5} />
      <span className="text-2xs text-ink-2 tabular-nums">{text}</span>
    </div>
  );
}

function Lease({ claim: c }: { claim: ClaimRecord }) {
  const now = useNow();
  const left = leaseLeft(c, now);
  if (!left) return <span className="text-ink-2">until released</span>;
  const soon = left.share < 0.1;
  return (
    <div className="ml-auto flex w-28 flex-col items-end gap-1">
      <span className={soon ? "font-medium text-failed" : ""}>
        {left.ms <= 0 ? "ends now" : `${duration(left.ms)} left`}
      </span>
      <Bar
        parts={[{ name: "left", value: left.share, colour: soon ? "text-failed" : "text-claimed" }]}
        whole={1}
        label={`${Math.round(left.share * 100)} % of the lease left`}
        height={4}
      />
    </div>
  );
}

/** Acts are what can be done with a claim in use. */
export function Acts({ claim: c, onRelease, onRenew }: Pick<Props, "onRelease" | "onRenew"> & { claim: ClaimRecord }) {
  const [lease, setLease] = useState("");
  if (!c.workspace) return null;
  const name = c.workspace;
  return (
    <div className="flex flex-wrap justify-end gap-1.5">
      {onRenew && (
        <Confirm
          act="Renew"
          title={`Renew the lease of ${name}?`}
          effect={
            c.lease
              ? `It was asked for for ${c.lease}. Counted from now on, ${c.user} keeps it as long as you say.`
              : `It has no lease: ${c.user} keeps it until it is released. With one it is released by itself when that is over.`
          }
          done={`The lease of ${name} is renewed.`}
          run={() => onRenew(name, lease || (c.lease ? "" : "4h"))}
        >
          <label className="flex flex-col gap-1.5 text-sm font-medium">
            From now on for
            <select className="field" value={lease || (c.lease ? "" : "4h")} onChange={(e) => setLease(e.target.value)}>
              {c.lease && <option value="">{c.lease}, as at first</option>}
              <option value="1h">1 hour</option>
              <option value="4h">4 hours</option>
              <option value="12h">12 hours</option>
              <option value="24h">a day</option>
            </select>
          </label>
        </Confirm>
      )}
      {onRelease && (
        <Confirm
          act="Release"
          title={`Release ${name}?`}
          effect={`The claim of ${c.user} ends. The workspace is deleted with what is in it, or reset where its template reuses workspaces.`}
          done={`${name} is released.`}
          run={() => onRelease(name)}
        />
      )}
    </div>
  );
}
