import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { Bar } from "../../components/Bar";
import { Confirm } from "../../components/Dialog";
import { FilterChoice, Filters, FilterWords, Narrowed } from "../../components/Filters";
import { Icon } from "../../components/Icon";
import { Badge } from "../../components/StateBadge";
import { EmptyState } from "../../components/Status";
import { Table, type Column } from "../../components/Table";
import { RelativeTime, Since } from "../../components/Time";
import type { ClaimRecord } from "../../generated/api";
import { duration, useNow } from "../../services/time";
import { rowsOf, saysGroup, type Row } from "./groups";
import { leaseLeft, stages } from "./receipt";

export type State = ClaimRecord["state"];
export type Outcome = NonNullable<ClaimRecord["outcome"]>;

export interface ClaimSearch {
  q?: string | undefined;
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
      <FilterWords of="Who, pool, workspace" value={search.q} onChange={(q) => onChange({ q })} />
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
      <Narrowed
        by={[
          ["Template", search.template, () => onChange({ template: undefined })],
          ["Preset", search.preset, () => onChange({ preset: undefined })],
          ["Who", search.user, () => onChange({ user: undefined })],
        ]}
      />
    </Filters>
  );
}

export function NoClaims({ search }: { search: ClaimSearch }) {
  const state = search.state ?? "bound";
  const narrowed = search.q || search.template || search.preset || search.user || search.outcome;
  if (narrowed) return <EmptyState icon="search" title="No claim matches" />;
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
  /** The claims of the requests with a count that are open, as far as they are read. */
  members?: ReadonlyMap<string, readonly ClaimRecord[]>;
  open?: ReadonlySet<string>;
  onToggle?: (group: string) => void;
  onRelease?: ((workspace: string) => Promise<unknown>) | undefined;
  onRenew?: ((workspace: string, lease: string) => Promise<unknown>) | undefined;
}

const none: ReadonlySet<string> = new Set();

/** ClaimsView is a page of claims of one state. A request with a count is one row, which opens to its claims. */
export function ClaimsView({ state, claims, members, open = none, onToggle, onRelease, onRenew }: Props) {
  /** single is a cell that a request with a count has only in the rows of its claims. */
  const single = (cell: (c: ClaimRecord) => ReactNode) => (r: Row) => (r.kind === "group" ? null : cell(r.claim));
  const pool: Column<Row> = {
    title: "Pool",
    cell: ({ claim: c }) => (
      <Link to="/presets/$template/$preset" params={{ template: c.template, preset: c.preset }} className="link">
        {c.template}/{c.preset}
      </Link>
    ),
  };
  const who: Column<Row> = {
    title: "Who",
    cell: (r) => (
      <span className="font-medium break-words">
        {r.kind === "member" && <Icon name="chevron" className="mr-1 inline size-3.5 text-ink-2" />}
        {r.claim.user}
      </span>
    ),
  };
  const workspace: Column<Row> = {
    title: "Workspace",
    cell: (r) =>
      r.kind === "group" ? (
        <Group claim={r.claim} open={open.has(r.claim.group?.id ?? "")} onToggle={onToggle} />
      ) : (
        <>
          {r.claim.workspace ? (
            <Link to="/workspaces/$workspace" params={{ workspace: r.claim.workspace }} className="link font-mono text-xs break-all md:whitespace-nowrap">
              {r.claim.workspace}
            </Link>
          ) : (
            <span className="text-ink-2">{r.claim.state === "waiting" ? "none yet" : "no longer on record"}</span>
          )}
          {r.claim.state !== state && <span className="text-ink-2"> {r.claim.state}</span>}
        </>
      ),
  };
  const outcome: Column<Row> = {
    title: "Outcome",
    cell: ({ claim: c }) =>
      c.outcome && (
        <div className="flex flex-col items-end gap-1 md:items-start">
          <Badge {...outcomes[c.outcome]} text={c.standby ? `${c.outcome}, out of standby` : c.outcome} />
          <Receipt claim={c} />
        </div>
      ),
  };
  const columns: Record<State, Column<Row>[]> = {
    waiting: [
      { title: "Place", cell: single((c) => <Place claim={c} />) },
      who,
      ...(claims.some((c) => c.group) ? [workspace] : []),
      pool,
      { title: "Waits for", cell: ({ claim: c }) => <Since at={c.created_at} />, right: true },
      { title: "Gives up", cell: ({ claim: c }) => c.deadline_at && <RelativeTime at={c.deadline_at} />, right: true },
    ],
    bound: [
      who,
      workspace,
      pool,
      outcome,
      { title: "Claimed", cell: ({ claim: c }) => <RelativeTime at={c.bound_at ?? c.created_at} />, right: true },
      { title: "Lease", cell: single((c) => (c.state === "bound" ? <Lease claim={c} /> : null)), right: true },
      ...(onRelease || onRenew
        ? [
            {
              title: "Actions",
              cell: single((c) => (c.state === "bound" ? <Acts claim={c} onRelease={onRelease} onRenew={onRenew} /> : null)),
              right: true,
            },
          ]
        : []),
    ],
    released: [
      who,
      workspace,
      pool,
      outcome,
      { title: "Held for", cell: single((c) => held(c)), right: true },
      { title: "Released", cell: single((c) => c.released_at && <RelativeTime at={c.released_at} />), right: true },
    ],
    missed: [
      who,
      ...(claims.some((c) => c.group) ? [workspace] : []),
      pool,
      { title: "Why", cell: ({ claim: c }) => <span className="break-words">{c.reason}</span> },
      { title: "Asked", cell: ({ claim: c }) => <RelativeTime at={c.created_at} />, right: true },
    ],
  };
  return (
    <Table label={labels[state]} rows={rowsOf(claims, members)} keyOf={(r) => `${r.kind} ${r.claim.claim_id}`} columns={columns[state]} />
  );
}

/** Group is a request with a count: how it stands, and its claims where it is opened. */
function Group({ claim: c, open, onToggle }: { claim: ClaimRecord; open: boolean; onToggle?: ((group: string) => void) | undefined }) {
  return (
    <button
      type="button"
      className="inline-flex items-center gap-1.5 rounded font-medium hover:underline"
      aria-expanded={open}
      onClick={() => c.group && onToggle?.(c.group.id)}
    >
      <Icon name="chevron" className={`size-3.5 text-ink-2 ${open ? "rotate-90" : ""}`} />
      {saysGroup(c)}
    </button>
  );
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
