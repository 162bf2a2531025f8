import { Link } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { memo, startTransition, useEffect, useLayoutEffect, useRef, useState } from "react";
import { Hours, percent } from "../../components/Hours";
import { Icon } from "../../components/Icon";
import { Progress } from "../../components/Progress";
import { Strip } from "../../components/Strip";
import { RelativeTime } from "../../components/Time";
import type { Pool } from "../../generated/api";
import { money } from "../../services/money";
import { slotsOf } from "../../services/pools";
import { statusOfPool, troubled } from "../../services/status";
import type { Line } from "./arrange";

interface Props {
  lines: readonly Line[];
  /** One line for each, so that forty are on a screen. */
  dense: boolean;
  /** Ids of the pools that are selected; nothing where none can be. */
  selected?: ReadonlySet<string> | undefined;
  onSelect: (pools: readonly Pool[], on: boolean) => void;
}

/** PoolRows lists pools, of which only those in sight are there. */
export function PoolRows({ lines, dense, selected, onSelect }: Props) {
  const priced = lines.some((l) => l.pool?.cost);
  const list = useRef<HTMLUListElement>(null);
  const [offset, setOffset] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setOffset(list.current ? list.current.getBoundingClientRect().top + window.scrollY : 0);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    return () => observer.disconnect();
  }, []);
  // What is in sight is painted first, and then what is near it.
  const [near, setNear] = useState(false);
  useEffect(() => startTransition(() => setNear(true)), []);
  const rows = useWindowVirtualizer({
    count: lines.length,
    estimateSize: (i) => (lines[i]?.pool ? (dense ? 24 : 84) : 40),
    overscan: near ? (dense ? 20 : 8) : 0,
    scrollMargin: offset,
    getItemKey: (i) => lines[i]?.pool?.id ?? lines[i]?.group ?? i,
    initialRect: { width: innerWidth, height: innerHeight },
  });
  return (
    <div className="card">
      <div
        aria-hidden="true"
        className={`hidden border-b border-line pr-5 text-xs font-medium text-ink-2 lg:grid ${columns(priced)} lg:gap-6 ${dense ? "py-1.5" : "py-2.5"} ${selected ? "pl-12" : "pl-5"}`}
      >
        <span>Pool</span>
        <span>Slots</span>
        <span className="hidden 3xl:block">Status</span>
        <span className="text-right">Ready / desired</span>
        <span>Hits in 24 h</span>
        {priced && <span className="hidden 3xl:block">Cost of idle</span>}
      </div>
      <ul ref={list} aria-label="Pools" className="relative" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((item) => {
          const line = lines[item.index];
          return (
            line && (
              <li
                key={item.key}
                ref={rows.measureElement}
                data-index={item.index}
                aria-setsize={lines.length}
                aria-posinset={item.index + 1}
                className="absolute inset-x-0 top-0 border-b border-line last:border-b-0"
                style={{ transform: `translateY(${item.start - offset}px)` }}
              >
                {line.pool ? (
                  <div className={`relative flex items-stretch hover:bg-sunken/50 ${selected ? "pl-12" : "pl-5"}`}>
                    {selected && (
                      <input
                        type="checkbox"
                        className={`absolute left-5 z-1 size-4 ${dense ? "top-1" : "top-4"}`}
                        aria-label={`Select ${line.pool.template}/${line.pool.preset}`}
                        checked={selected.has(line.pool.id)}
                        onChange={(e) => onSelect([line.pool], e.target.checked)}
                      />
                    )}
                    <div className="min-w-0 grow">{dense ? <DenseRow pool={line.pool} priced={priced} /> : <Row pool={line.pool} priced={priced} />}</div>
                  </div>
                ) : (
                  <div className={`relative bg-sunken py-2 pr-5 text-sm ${selected ? "pl-12" : "pl-5"}`}>
                    {selected && (
                      <input
                        type="checkbox"
                        className="absolute top-2.5 left-5 size-4"
                        aria-label={`Select all of ${line.group}`}
                        checked={line.pools.every((p) => selected.has(p.id))}
                        onChange={(e) => onSelect(line.pools, e.target.checked)}
                      />
                    )}
                    <h3 className="font-semibold">
                      {line.group} <span className="font-normal text-ink-2">{line.pools.length}</span>
                    </h3>
                  </div>
                )}
              </li>
            )
          );
        })}
      </ul>
    </div>
  );
}

/** columns are those of a row: a wide screen has the status in words, and the cost where something has one. */
function columns(priced: boolean): string {
  return priced
    ? "lg:grid-cols-[minmax(0,15rem)_minmax(0,1fr)_7.5rem_11rem] 3xl:grid-cols-[minmax(0,20rem)_minmax(0,1fr)_14rem_8rem_11rem_11rem]"
    : "lg:grid-cols-[minmax(0,15rem)_minmax(0,1fr)_7.5rem_11rem] 3xl:grid-cols-[minmax(0,20rem)_minmax(0,1fr)_14rem_8rem_11rem]";
}

/** Row is one pool. The whole of it leads to its page. */
const Row = memo(function Row({ pool, priced }: { pool: Pool; priced: boolean }) {
  const status = statusOfPool(pool);
  return (
    <div className={`grid gap-x-6 gap-y-2.5 py-3.5 pr-5 ${columns(priced)} lg:items-center`}>
      <div className="min-w-0">
        <Link
          to="/presets/$template/$preset"
          params={{ template: pool.template, preset: pool.preset }}
          className="block truncate font-medium after:absolute after:inset-0"
        >
          <span className="text-ink-2">{pool.template}/</span>
          {pool.preset}
        </Link>
        <p className="truncate text-xs text-ink-2">
          {pool.provider}, version {pool.version}
          {pool.paused && ", paused"}
        </p>
      </div>
      <div className="flex min-w-0 flex-col gap-1.5">
        <Strip slots={slotsOf(pool)} room={36} />
        <Says pool={pool} />
      </div>
      <p className="hidden truncate 3xl:block" aria-hidden="true">{status.text}</p>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-0.5 lg:flex-col lg:items-end">
        <p className="flex items-center gap-1.5 tabular-nums">
          <Icon name={status.icon} className={`size-4 ${status.colour}`} />
          <span className="sr-only">{status.text}:</span>
          <span>
            <span className="font-semibold">{pool.slots.ready}</span>
            <span className="text-ink-2">
              {pool.slots.outdated > 0 && (
                <span title="outdated">
                  <span className="sr-only"> and outdated </span>
                  <span aria-hidden="true"> + </span>
                  {pool.slots.outdated}
                </span>
              )}
              <span className="sr-only"> ready of </span>
              <span aria-hidden="true"> / </span>
              {pool.desired}
            </span>
            <span className="text-ink-2 lg:sr-only"> ready</span>
          </span>
        </p>
        {pool.next_change && <Next change={pool.next_change} />}
      </div>
      <div className="flex items-center gap-3 lg:flex-col lg:items-start lg:gap-1">
        <Hours hours={pool.hours} height={16} />
        <p className="text-xs whitespace-nowrap text-ink-2 tabular-nums">
          {pool.claims === 0 ? (
            "no claims"
          ) : (
            <>
              <b className="font-semibold text-ink">{percent(pool.hits, pool.claims)}</b> of {pool.claims}
            </>
          )}
        </p>
        {pool.cost && (
          <p className="text-xs text-ink-2 tabular-nums 3xl:hidden">
            <Cost cost={pool.cost} />
          </p>
        )}
      </div>
      {priced && <p className="hidden text-sm text-ink-2 tabular-nums 3xl:block">{pool.cost && <Cost cost={pool.cost} />}</p>}
    </div>
  );
});

/** DenseRow is one pool in one line. */
const DenseRow = memo(function DenseRow({ pool, priced }: { pool: Pool; priced: boolean }) {
  const status = statusOfPool(pool);
  return (
    <div className={`grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 py-0.5 pr-5 text-xs ${columns(priced)} lg:gap-x-6`}>
      <Link
        to="/presets/$template/$preset"
        params={{ template: pool.template, preset: pool.preset }}
        className="block min-w-0 truncate font-medium after:absolute after:inset-0"
      >
        <span className="text-ink-2">{pool.template}/</span>
        {pool.preset}
      </Link>
      <span className="hidden min-w-0 items-center gap-3 lg:flex">
        <Strip slots={slotsOf(pool)} room={24} />
        <span className="truncate text-ink-2">{troubled(pool) ? pool.attention?.text : ""}</span>
      </span>
      <span className="hidden truncate 3xl:block" aria-hidden="true">{status.text}</span>
      <span className="flex items-center justify-end gap-1.5 tabular-nums">
        <Icon name={status.icon} className={`size-3.5 ${status.colour}`} />
        <span className="sr-only">{status.text}:</span>
        <span>
          <b className="font-semibold">{pool.slots.ready + pool.slots.outdated}</b>
          <span className="text-ink-2">
            <span className="sr-only"> ready of </span>
            <span aria-hidden="true"> / </span>
            {pool.desired}
          </span>
        </span>
      </span>
      <span className="hidden text-ink-2 tabular-nums lg:block">
        {pool.claims === 0 ? "no claims" : `${percent(pool.hits, pool.claims)} of ${pool.claims}`}
      </span>
      {priced && <span className="hidden truncate text-ink-2 tabular-nums 3xl:block">{pool.cost && <Cost cost={pool.cost} />}</span>}
    </div>
  );
});

/** Cost is what the idle prebuilds of a pool cost in a day, and for each claim. */
function Cost({ cost: c }: { cost: NonNullable<Pool["cost"]> }) {
  return (
    <span title="Of the prebuilds that are idle now; for each claim of the last 24 hours">
      <span className="whitespace-nowrap 3xl:hidden">idle </span>
      <span className="whitespace-nowrap">{money(c.per_day)} a day</span>
      {c.per_claim !== undefined && <span className="whitespace-nowrap">, {money(c.per_claim)} a claim</span>}
    </span>
  );
}

/** Says is the one thing that is most worth saying of a pool, if there is any. */
function Says({ pool }: { pool: Pool }) {
  const why = pool.attention;
  if (why && troubled(pool)) {
    return (
      <p className="flex min-w-0 items-center gap-1.5 text-xs">
        <Icon
          name={why.bad ? "alert" : "pause"}
          className={`size-3.5 ${why.bad ? "text-failed" : "text-draining"}`}
        />
        <span className="truncate" title={why.text}>
          {why.text}
        </span>
      </p>
    );
  }
  if (pool.rollout) {
    const { ready, desired, outdated } = pool.rollout;
    return (
      <div className="flex min-w-0 items-center gap-2 text-xs text-ink-2">
        <Icon name="refresh" className="size-3.5 text-starting" />
        <span className="min-w-0 truncate">
          Version {pool.version} rolls out: {ready} of {desired} ready, {outdated} outdated
        </span>
        <span className="hidden w-24 shrink-0 sm:block">
          <Progress done={ready} of={desired} label={`${ready} of ${desired} ready`} />
        </span>
      </div>
    );
  }
  return null;
}

/** Next is what the schedule changes next. */
function Next({ change }: { change: NonNullable<Pool["next_change"]> }) {
  return (
    <p className="flex items-center gap-1 text-xs text-ink-2 tabular-nums" title="By its schedule">
      <Icon name="clock" className="size-3" />
      <span className="sr-only">By its schedule </span>
      {change.instances}
      <span className="sr-only"> desired</span> <RelativeTime at={change.at} />
    </p>
  );
}
