import type { IconName } from "../../components/Icon";
import type { Inventory, InventoryEntry } from "../../generated/api";

export type Verdict = InventoryEntry["verdict"];

interface Look {
  icon: IconName;
  colour: string;
  /** What it means, in a few words. */
  means: string;
}

/** verdicts are all there are, the worst first. */
export const verdicts: Readonly<Record<Verdict, Look>> = {
  "claimed-missing": { icon: "alert", colour: "text-failed", means: "in use, and gone at the provider" },
  contradiction: { icon: "alert", colour: "text-failed", means: "both sides say what cannot be" },
  missing: { icon: "alert", colour: "text-failed", means: "a prebuild that is gone at the provider" },
  orphan: { icon: "alert", colour: "text-draining", means: "ours there, and of no workspace" },
  vanished: { icon: "empty", colour: "text-draining", means: "was to go, and is gone" },
  failed: { icon: "cross", colour: "text-failed", means: "the provider says that it failed" },
  stopped: { icon: "pause", colour: "text-draining", means: "stopped, and nobody asked for that" },
  unreadable: { icon: "alert", colour: "text-draining", means: "the provider cannot say what it is" },
  drifted: { icon: "alert", colour: "text-draining", means: "not as its state says" },
  unknown: { icon: "search", colour: "text-draining", means: "not known here" },
  adopt: { icon: "refresh", colour: "text-starting", means: "ours, taken in again" },
  making: { icon: "building", colour: "text-starting", means: "being made" },
  gone: { icon: "empty", colour: "text-draining", means: "quarantined, and gone at the provider" },
  going: { icon: "drain", colour: "text-draining", means: "being deleted" },
  ok: { icon: "check", colour: "text-ready", means: "as it should be" },
};

/** tally is how many there are of each verdict, the worst first. */
export function tally(counts: Inventory["counts"]): readonly (readonly [Verdict, number])[] {
  return (Object.keys(verdicts) as Verdict[]).flatMap((v) => {
    const n = counts[v] ?? 0;
    return n > 0 ? [[v, n] as const] : [];
  });
}

/** Group is what has the same verdict for the same reason, with the same to follow. */
export interface Group {
  verdict: Verdict;
  detail: string;
  next: string | undefined;
  entries: InventoryEntry[];
}

/** groups puts together what is told in the same words, the worst first. */
export function groups(entries: readonly InventoryEntry[]): Group[] {
  const by = new Map<string, Group>();
  for (const e of entries) {
    const detail = e.detail || verdicts[e.verdict].means;
    const key = JSON.stringify([e.verdict, detail, e.next]);
    const group = by.get(key) ?? { verdict: e.verdict, detail, next: e.next, entries: [] };
    group.entries.push(e);
    by.set(key, group);
  }
  const order = Object.keys(verdicts);
  return [...by.values()].sort((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict) || b.entries.length - a.entries.length);
}
