import { queryOptions, useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import type { Slots } from "../components/Strip";
import type { Pool } from "../generated/api";
import { call } from "./api";
import { stream, type News } from "./stream";

const key = ["list-pools"] as const;

/** Past so many changed pools it is cheaper to read all. */
const most = 100;

/** A screen shows so many pools; they are there while the others are read. */
const screenful = 50;

/** The beginning of the list, as it is shown while the others are read. */
const beginnings = new WeakSet<readonly Pool[]>();

/** incomplete says whether other pools are being read for the first time. */
export const incomplete = (pools: readonly Pool[]) => beginnings.has(pools);

/** readAll reads all pools. The first time it shows the beginning of the list while it reads the others. */
export async function readAll(client: QueryClient): Promise<Pool[]> {
  const pools: Pool[] = [];
  const first = client.getQueryData(key) === undefined;
  let after: string | undefined;
  do {
    const begins = first && pools.length === 0;
    const page = await call("list-pools", { params: { limit: begins ? screenful : 500, after } });
    pools.push(...page.pools);
    after = page.next;
    if (begins && after) {
      const beginning = [...pools];
      beginnings.add(beginning);
      client.setQueryData(key, beginning);
      await painted();
    }
  } while (after);
  return pools;
}

/** painted waits until the screen shows what was just given to it; nothing is painted of a page in the background. */
const painted = () =>
  new Promise<void>((done) => {
    if (document.visibilityState === "hidden") done();
    else requestAnimationFrame(() => setTimeout(done));
  });

/** merge puts what was read of some pools in the place of what was known of them. Those that are gone are not in fresh. */
export function merge(pools: readonly Pool[], ids: ReadonlySet<string>, fresh: readonly Pool[]): Pool[] {
  const left = new Map(fresh.map((p) => [p.id, p]));
  const merged = pools.flatMap((p) => {
    if (!ids.has(p.id)) return [p];
    const now = left.get(p.id);
    left.delete(p.id);
    return now ? [now] : [];
  });
  if (left.size === 0) return merged;
  return [...merged, ...left.values()].sort((a, b) =>
    a.template === b.template ? compare(a.preset, b.preset) : compare(a.template, b.template),
  );
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** follow reads the pools again that hints are about, one request at a time, until it is stopped. */
function follow(client: QueryClient): () => void {
  const changed = new Set<string>();
  let busy = false;
  let all = false;
  const refresh = async () => {
    if (busy || (changed.size === 0 && !all)) return;
    if (all || changed.size > most) {
      all = false;
      changed.clear();
      void client.invalidateQueries({ queryKey: key });
      return;
    }
    busy = true;
    const ids = new Set(changed);
    changed.clear();
    try {
      const { pools } = await call("list-pools", { params: { ids: [...ids], limit: most } });
      client.setQueryData<Pool[]>(key, (known) => known && merge(known, ids, pools));
    } catch {
      void client.invalidateQueries({ queryKey: key }); // which tries again, and says what is wrong
    } finally {
      busy = false;
      void refresh();
    }
  };
  return stream.listen((news: News) => {
    if (news.everything) return; // services/invalidate.ts has it read all
    for (const { topic, id } of news.hints) {
      if (topic === "preset") changed.add(id);
      else if (topic === "template" || topic === "pause") all = true;
    }
    void refresh();
  });
}

const all = (client: QueryClient) => queryOptions({ queryKey: key, queryFn: () => readAll(client) });

/** preload reads all pools before their page is there to ask for them. */
export const preload = (client: QueryClient) => void client.prefetchQuery(all(client));

/** usePools is all pools there are, kept current. */
export function usePools() {
  const client = useQueryClient();
  useEffect(() => follow(client), [client]);
  return useQuery(all(client));
}

/** slotsOf is the strip of a pool: its workspaces, and what is missing to desired. */
export function slotsOf(pool: Pool): Slots {
  const s = pool.slots;
  return {
    ready: s.ready,
    outdated: s.outdated,
    starting: s.starting,
    empty: Math.max(0, pool.desired - s.ready - s.starting),
    draining: s.leaving,
    failed: s.failed,
    claimed: s.claimed,
  };
}

/** warm says whether whoever comes finds as much as is wanted. */
export function warm(pool: Pool): boolean {
  return pool.slots.ready + pool.slots.outdated >= pool.desired;
}
