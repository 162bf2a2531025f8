import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { Button } from "../../components/Button";
import { Hours, percent } from "../../components/Hours";
import { Icon } from "../../components/Icon";
import { EmptyState } from "../../components/Status";
import { StripLegend } from "../../components/Strip";
import type { Pool } from "../../generated/api";
import { warm } from "../../services/pools";
import { money } from "../../services/money";
import { counted } from "../../services/words";
import { troubled as needsAttention } from "../../services/status";
import { arrange, groups, sortNames, sorts, type Group, type Sort } from "./arrange";
import { Bulk } from "./Bulk";
import { PoolRows } from "./PoolRows";

export interface Filter {
  q?: string | undefined;
  show?: "attention" | "paused" | "rollout" | undefined;
  sort?: Sort | undefined;
  group?: Group | undefined;
  dense?: boolean | undefined;
}

interface Props {
  pools: readonly Pool[];
  filter: Filter;
  onFilter: (filter: Filter) => void;
  /** Whether pools can be selected, to do something to several at once. */
  bulk?: boolean;
}

/** matches says whether a pool is among those asked for. Each word must be in its name, its provider or its pause. */
export function matches(pool: Pool, filter: Filter): boolean {
  if (filter.show === "attention" && !needsAttention(pool)) return false;
  if (filter.show === "paused" && !pool.paused) return false;
  if (filter.show === "rollout" && !pool.rollout) return false;
  const text = `${pool.template}/${pool.preset} ${pool.provider} ${pool.paused ?? ""}`.toLowerCase();
  return (filter.q ?? "")
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

const shows = [
  { show: undefined, name: "All" },
  { show: "attention", name: "Needs attention" },
  { show: "rollout", name: "Rolling out" },
  { show: "paused", name: "Paused" },
] as const;

/** PoolsView is the looks of the page of pools. */
export function PoolsView({ pools, filter, onFilter, bulk = false }: Props) {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  if (pools.length === 0) {
    return (
      <EmptyState icon="pools" title="No pools yet">
        <p className="mb-5">
          A pool keeps workspaces ready before anybody asks for one. The first is warm in under a minute.
        </p>
        <Link
          to="/welcome"
          className="inline-flex min-h-9 items-center gap-2 rounded-lg bg-accent px-4 py-2 text-sm font-medium text-on-accent"
        >
          Create a first pool
          <Icon name="chevron" />
        </Link>
      </EmptyState>
    );
  }
  const troubled = pools.filter(needsAttention);
  const shown = pools.filter((p) => matches(p, filter));
  const chosen = pools.filter((p) => selected.has(p.id));
  const select = (of: readonly Pool[], on: boolean) =>
    setSelected((old) => {
      const next = new Set(old);
      for (const p of of) {
        if (on) next.add(p.id);
        else next.delete(p.id);
      }
      return next;
    });
  return (
    <>
      <Summary pools={pools} troubled={troubled.length} />
      {troubled.length > 0 && filter.show !== "attention" && (
        <Troubles pools={troubled} onAll={() => onFilter({ ...filter, show: "attention" })} />
      )}
      <section aria-label="All pools" className="flex flex-col gap-4">
        <div className="flex flex-wrap items-center gap-3">
          <label className="relative min-w-0 grow sm:max-w-xs">
            <span className="sr-only">Filter by name or provider</span>
            <Icon name="search" className="absolute top-1/2 left-3 size-4 -translate-y-1/2 text-ink-2" />
            <input
              type="search"
              className="field pl-9"
              placeholder="Filter by name or provider"
              defaultValue={filter.q ?? ""}
              onChange={(e) => onFilter({ ...filter, q: e.target.value || undefined })}
            />
          </label>
          <div role="group" aria-label="Show" className="flex flex-wrap gap-1">
            {shows.map(({ show, name }) => (
              <Button
                key={name}
                look={filter.show === show ? "plain" : "quiet"}
                aria-pressed={filter.show === show}
                onClick={() => onFilter({ ...filter, show })}
              >
                {name}
              </Button>
            ))}
          </div>
          <p className="ml-auto text-sm text-ink-2" role="status">
            {shown.length === pools.length ? counted(pools.length, "preset") : `${shown.length} of ${counted(pools.length, "preset")}`}
          </p>
        </div>
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2 text-sm">
          <label className="flex items-center gap-2">
            <span className="text-ink-2">Sort</span>
            <select
              className="field h-9 w-auto py-1"
              value={filter.sort ?? "name"}
              onChange={(e) => onFilter({ ...filter, sort: e.target.value === "name" ? undefined : (e.target.value as Sort) })}
            >
              {sorts.map((s) => (
                <option key={s} value={s}>
                  {sortNames[s]}
                </option>
              ))}
            </select>
          </label>
          <label className="flex items-center gap-2">
            <span className="text-ink-2">Group</span>
            <select
              className="field h-9 w-auto py-1"
              value={filter.group ?? ""}
              onChange={(e) => onFilter({ ...filter, group: (e.target.value || undefined) as Group | undefined })}
            >
              <option value="">none</option>
              {groups.map((g) => (
                <option key={g}>{g}</option>
              ))}
            </select>
          </label>
          <label className="flex items-center gap-2">
            <input type="checkbox" checked={filter.dense ?? false} onChange={(e) => onFilter({ ...filter, dense: e.target.checked || undefined })} />
            Dense rows
          </label>
          {bulk && shown.length > 0 && (
            <label className="flex items-center gap-2">
              <input
                type="checkbox"
                checked={shown.every((p) => selected.has(p.id))}
                onChange={(e) => select(shown, e.target.checked)}
              />
              Select all shown
            </label>
          )}
        </div>
        {shown.length > 0 ? (
          <PoolRows
            lines={arrange(shown, filter.sort, filter.group)}
            dense={filter.dense ?? false}
            selected={bulk ? selected : undefined}
            onSelect={select}
          />
        ) : (
          <EmptyState icon="search" title="No pool matches">
            <Button className="mt-2" onClick={() => onFilter({})}>
              Show all
            </Button>
          </EmptyState>
        )}
        {bulk && <Bulk pools={chosen} onClear={() => setSelected(new Set())} />}
        <StripLegend />
      </section>
    </>
  );
}

function Summary({ pools, troubled }: { pools: readonly Pool[]; troubled: number }) {
  const kept = pools.filter((p) => p.pool);
  const sum = (of: (p: Pool) => number) => pools.reduce((total, p) => total + of(p), 0);
  const claims = sum((p) => p.claims);
  const hits = sum((p) => p.hits);
  const hours = Array.from({ length: 48 }, (_, i) => sum((p) => p.hours[i] ?? 0));
  const desired = sum((p) => p.desired);
  const ready = sum((p) => p.slots.ready);
  const priced = pools.some((p) => p.cost);
  return (
    <dl className="grid grid-cols-2 gap-3 lg:grid-cols-4">
      <Figure name="Pools warm" value={`${kept.filter(warm).length}`} of={` of ${kept.length}`}>
        {troubled === 0 ? "Nothing needs attention" : troubled === 1 ? "1 needs attention" : `${troubled} need attention`}
      </Figure>
      <Figure name="Ready" value={`${ready}`} of={` of ${desired} desired`}>
        {sum((p) => p.slots.starting)} being built
        {priced && `; idle costs ${money(sum((p) => p.cost?.per_day ?? 0))} a day`}
      </Figure>
      <Figure name="In use" value={`${sum((p) => p.slots.claimed)}`}>
        {counted(sum((p) => p.waiting), "claim")} waiting
      </Figure>
      <Figure name="Hits in 24 h" value={percent(hits, claims)} of={claims > 0 ? ` of ${claims}` : ""}>
        <Hours hours={hours} wide height={18} />
      </Figure>
    </dl>
  );
}

function Figure({ name, value, of = "", children }: { name: string; value: string; of?: string; children: ReactNode }) {
  return (
    <div className="card flex min-w-0 flex-col gap-0.5 px-4 py-3.5 sm:px-5">
      <dt className="text-sm text-ink-2">{name}</dt>
      <dd className="flex min-w-0 grow flex-col justify-between gap-1">
        <span>
          <span className="text-2xl font-semibold tracking-tight tabular-nums">{value}</span>
          <span className="text-sm text-ink-2">{of}</span>
        </span>
        <span className="text-sm text-ink-2">{children}</span>
      </dd>
    </div>
  );
}

/** So many of the pools that need attention are shown at once. */
const few = 5;

function Troubles({ pools, onAll }: { pools: readonly Pool[]; onAll: () => void }) {
  const [open, setOpen] = useState(true);
  const worst = [...pools].sort((a, b) => Number(b.attention?.bad) - Number(a.attention?.bad)).slice(0, few);
  return (
    <section aria-label="Needs attention" className="card">
      <div className="flex items-center gap-2 px-5 py-3">
        <Icon name="alert" className="size-5 text-failed" />
        <h2 className="grow font-semibold">Needs attention</h2>
        <Button look="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide" : `Show ${pools.length}`}
        </Button>
      </div>
      {open && (
        <ul className="divide-y divide-line border-t border-line">
          {worst.map((p) => {
            const why = p.attention;
            return (
              <li key={p.id} className="flex flex-col gap-x-4 px-5 py-2.5 sm:flex-row">
                <Link
                  to="/presets/$template/$preset"
                  params={{ template: p.template, preset: p.preset }}
                  className="link shrink-0 font-medium sm:w-64 sm:truncate"
                >
                  {p.template}/{p.preset}
                </Link>
                <span className="flex min-w-0 gap-2">
                  <Icon
                    name={why?.bad ? "cross" : "pause"}
                    className={`mt-1 size-4 ${why?.bad ? "text-failed" : "text-draining"}`}
                  />
                  <span className="line-clamp-2 min-w-0 break-words">{why?.text}</span>
                </span>
              </li>
            );
          })}
        </ul>
      )}
      {open && pools.length > few && (
        <div className="border-t border-line px-3 py-2">
          <Button look="quiet" onClick={onAll}>
            Show all {pools.length}
          </Button>
        </div>
      )}
    </section>
  );
}
