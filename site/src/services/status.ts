import type { IconName } from "../components/Icon";
import type { Pool, Preset } from "../generated/api";

/** PoolStatus is the state of a pool in a few words, with an icon and a colour. */
export interface PoolStatus {
  text: string;
  icon: IconName;
  colour: string;
  /** It does not recover by itself. */
  bad: boolean;
}

/** Facts are what the status of a pool depends on. */
export interface Facts {
  pool: boolean;
  desired: number;
  /** Prebuilds of the active version that are ready. */
  ready: number;
  /** Prebuilds that can be claimed now, those of older versions too. */
  claimable: number;
  starting: number;
  /** Rounds of failed creates in a row. */
  failures: number;
  error?: string | undefined;
  paused?: string | undefined;
  rollout?: { phase: "progressing" | "stopped" } | undefined;
}

const good = { icon: "check", colour: "text-ready", bad: false } as const;
const busy = { icon: "refresh", colour: "text-starting", bad: false } as const;
const held = { icon: "pause", colour: "text-draining", bad: false } as const;
const bad = { icon: "alert", colour: "text-failed", bad: true } as const;

/** statusOf is the status of a pool. A pool that has all it should have is warm, also while it is paused. */
export function statusOf(f: Facts): PoolStatus {
  if (f.error) return { ...bad, text: "Failed" };
  if (f.rollout?.phase === "stopped") return { ...bad, text: "Rollout stopped" };
  if (f.failures > 0) return { ...bad, text: "Creates fail" };
  if (!f.pool) return { icon: "empty", colour: "text-ink-2", bad: false, text: "No pool" };
  if (f.rollout && f.claimable > 0) return { ...busy, text: `Rolling out: ${f.claimable} claimable` };
  if (f.claimable >= f.desired) return { ...good, text: "Warm" };
  if (f.paused) return { ...held, text: `Paused: ${f.ready} of ${f.desired} ready` };
  if (f.claimable + f.starting === 0) return { ...bad, text: "Empty" };
  return { ...busy, icon: "building", text: `Filling: ${f.ready} of ${f.desired} ready` };
}

export function statusOfPool(p: Pool): PoolStatus {
  return statusOf({
    ...p,
    ready: p.slots.ready,
    claimable: p.slots.ready + p.slots.outdated,
    starting: p.slots.starting,
    failures: p.failures ?? 0,
  });
}

export function statusOfPreset(p: Preset, failures: number): PoolStatus {
  return statusOf({ ...p, ready: p.actual, claimable: p.eligible, failures });
}

/** blocked is why a claim cannot be served now and will not be soon; nothing where one is ready or being built. */
export function blocked(p: Preset, failures: number): string | undefined {
  if (p.eligible > 0) return undefined;
  const none = "No workspace can be claimed now";
  if (p.error) return `${none}: the last pass failed: ${p.error}`;
  if (p.rollout?.phase === "stopped") return `${none}: the rollout stopped${p.rollout.reason ? `: ${p.rollout.reason}` : ""}`;
  if (failures > 0) return `${none}: creates fail`;
  if (p.paused && p.starting === 0) return `${none}: paused (${p.paused})`;
  return undefined;
}

/** troubled says whether somebody should look at a pool. A global pause has its own banner, so warm pools stay quiet. */
export function troubled(p: Pool): boolean {
  if (!p.attention) return false;
  const paused = p.attention.code === "paused" && p.paused_scope === "global";
  return !paused || p.slots.ready + p.slots.outdated < p.desired;
}
