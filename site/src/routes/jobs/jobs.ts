import type { IconName } from "../../components/Icon";
import type { ForgeEntity, ForgeJob, Runner } from "../../generated/api";

export interface Look {
  icon: IconName;
  colour: string;
  text: string;
}

/** standing is how it goes with a forge, as an icon and a word: the worst of it. */
export function standing(f: Pick<ForgeEntity, "stopped" | "stopped_at" | "status">, now: number): Look {
  if (f.stopped_at || f.stopped) return { icon: "pause", colour: "text-draining", text: "stopped" };
  if (f.status.error) return { icon: "alert", colour: "text-failed", text: "fails" };
  if (f.status.wait_until && Date.parse(f.status.wait_until) > now) {
    return { icon: "clock", colour: "text-draining", text: "waits for its rate limit" };
  }
  if (!f.status.succeeded_at) return { icon: "clock", colour: "text-starting", text: "not asked yet" };
  return { icon: "check", colour: "text-ready", text: "works" };
}

const conclusions: Record<string, Omit<Look, "text">> = {
  success: { icon: "check", colour: "text-ready" },
  failure: { icon: "cross", colour: "text-failed" },
  timed_out: { icon: "clock", colour: "text-failed" },
};

/** conclusion is how a job ended, in the forge's word. */
export function conclusion(j: Pick<ForgeJob, "conclusion">): Look {
  const word = j.conclusion || "ended";
  return { ...(conclusions[word] ?? { icon: "empty", colour: "text-ink-2" }), text: word.replaceAll("_", " ") };
}

const statuses: Record<Runner["status"], Look> = {
  pending: { icon: "building", colour: "text-starting", text: "not registered yet" },
  idle: { icon: "check", colour: "text-ready", text: "idle" },
  active: { icon: "play", colour: "text-claimed", text: "at a job" },
  offline: { icon: "alert", colour: "text-failed", text: "offline" },
  gone: { icon: "empty", colour: "text-ink-2", text: "gone" },
};

/** statusOf is what the forge says of a runner. */
export function statusOf(r: Pick<Runner, "status">): Look {
  return statuses[r.status];
}

/** took is how long a job ran, in milliseconds, where both ends are known. */
export function took(j: Pick<ForgeJob, "started_at" | "completed_at">): number | undefined {
  if (!j.started_at || !j.completed_at) return undefined;
  return Math.max(0, Date.parse(j.completed_at) - Date.parse(j.started_at));
}

/** web is an address that a link may lead to: what a forge said of its job is a page, or nothing. */
export function web(url: string | undefined): string | undefined {
  return url && /^https?:\/\//i.test(url) ? url : undefined;
}

/** tally counts runners by their status, those that there are; in the order of their lives. */
export function tally(runners: readonly Pick<Runner, "status">[]): { status: Runner["status"]; count: number }[] {
  const order: readonly Runner["status"][] = ["pending", "idle", "active", "offline"];
  return order.flatMap((status) => {
    const count = runners.filter((r) => r.status === status).length;
    return count > 0 ? [{ status, count }] : [];
  });
}
