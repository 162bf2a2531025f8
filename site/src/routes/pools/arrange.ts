import type { Pool } from "../../generated/api";
import { statusOfPool, troubled } from "../../services/status";

export const sorts = ["name", "attention", "ready", "claims", "hits"] as const;
export type Sort = (typeof sorts)[number];

export const groups = ["template", "provider", "status"] as const;
export type Group = (typeof groups)[number];

export const sortNames: Record<Sort, string> = {
  name: "name",
  attention: "needs attention first",
  ready: "fewest ready first",
  claims: "most claims first",
  hits: "lowest hit rate first",
};

/** Line is one of the list of pools: a pool, or the name of those that follow. */
export type Line = { pool: Pool; group?: undefined } | { group: string; pools: readonly Pool[]; pool?: undefined };

const ready = (p: Pool) => p.slots.ready + p.slots.outdated;
const share = (part: number, whole: number) => (whole > 0 ? part / whole : 1);

/** Pools come sorted by name, and a sort keeps that order among equals. */
const before: Record<Sort, (a: Pool, b: Pool) => number> = {
  name: () => 0,
  attention: (a, b) => urgency(b) - urgency(a),
  ready: (a, b) => share(ready(a), a.desired) - share(ready(b), b.desired),
  claims: (a, b) => b.claims - a.claims,
  hits: (a, b) => share(a.hits, a.claims) - share(b.hits, b.claims),
};

const urgency = (p: Pool) => (troubled(p) ? (p.attention?.bad ? 2 : 1) : 0);

/** The kinds of status, the worst first, without their numbers: "Filling: 1 of 3 ready" is "Filling". */
const kind = (p: Pool) => statusOfPool(p).text.replace(/:.*/, "");
const order = ["Failed", "Rollout stopped", "Creates fail", "Empty", "Paused", "Filling", "Rolling out", "Warm", "No pool"];

const keys: Record<Group, (p: Pool) => string> = { template: (p) => p.template, provider: (p) => p.provider, status: kind };

/** arrange sorts pools, and puts a line before those of each group. */
export function arrange(pools: readonly Pool[], sort: Sort = "name", group?: Group): Line[] {
  const sorted = sort === "name" ? pools : [...pools].sort(before[sort]);
  if (!group) return sorted.map((pool) => ({ pool }));
  const of = new Map<string, Pool[]>();
  for (const pool of sorted) {
    const key = keys[group](pool);
    const there = of.get(key);
    if (there) there.push(pool);
    else of.set(key, [pool]);
  }
  const names = [...of.keys()].sort((a, b) => (group === "status" ? order.indexOf(a) - order.indexOf(b) : a < b ? -1 : 1));
  return names.flatMap((name): Line[] => {
    const pools = of.get(name) ?? [];
    return [{ group: name, pools }, ...pools.map((pool) => ({ pool }))];
  });
}
