import type { Change, Plan, PresetPlan } from "../../generated/api";

/** Kinds of changes, in the order in which they are shown. */
export const actions = ["create", "activate", "update", "delete"] as const;

const verbs = { create: "New", activate: "Active again", update: "Changed", delete: "Removed" } as const;

/** headingOf is what becomes of the things under it. */
export const headingOf = (action: Change["action"]) => verbs[action];

/** subject is what a change is to, in people's words. */
export function subject(change: Change): string {
  if (change.kind === "version") {
    const [template, number] = change.name.split("@");
    return number ? `version ${number} of ${template}` : `version ${change.name}`;
  }
  return `${change.kind} ${change.name}`;
}

const count = (n: number, one: string, many: string) => (n === 1 ? `1 ${one}` : `${n} ${many}`);

/** deeds is what the next pass would do, in words; nothing where it would do nothing. */
export function deeds(p: Pick<PresetPlan, "create" | "cancel" | "drain" | "start" | "stop">): string[] {
  return [
    p.create > 0 && `create ${count(p.create, "prebuild", "prebuilds")}`,
    p.cancel > 0 && `cancel ${count(p.cancel, "pending create", "pending creates")}`,
    p.drain > 0 && `remove ${count(p.drain, "prebuild", "prebuilds")}`,
    p.start !== undefined && p.start > 0 && `start ${p.start} out of standby`,
    p.stop !== undefined && p.stop > 0 && `stop ${p.stop} into standby`,
  ].filter((s): s is string => typeof s === "string");
}

/** busy are the presets of a plan that the next pass would do something about, or cannot; those to lose first. */
export function busy(plan: Plan): PresetPlan[] {
  return plan.presets
    .filter((p) => p.error !== undefined || deeds(p).length > 0)
    .sort((a, b) => Number(!!b.error) - Number(!!a.error) || b.drain - a.drain || b.create - a.create);
}

/** place is where something is wrong in a file: its line and column, from file:line:column. */
export function place(location: string | undefined): { line: number; column: number } | undefined {
  const found = /:(\d+)(?::(\d+))?$/.exec(location ?? "");
  return found ? { line: Number(found[1]), column: Number(found[2] ?? 1) } : undefined;
}
