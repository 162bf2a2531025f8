import { Link } from "@tanstack/react-router";
import { Icon } from "../../components/Icon";
import { Section } from "../../components/Page";
import { Badge } from "../../components/StateBadge";
import { Notice } from "../../components/Status";
import { Strip, StripLegend, type Slots } from "../../components/Strip";
import { RelativeTime } from "../../components/Time";
import type { PresetRollout, TemplateRollout, VersionSlots } from "../../generated/api";
import { counted } from "../../services/words";

/** phaseOf is the worst of a template's presets; nothing where no rollout is under way. */
export function phaseOf(presets: readonly PresetRollout[]): "stopped" | "progressing" | undefined {
  if (presets.some((p) => p.rollout?.phase === "stopped")) return "stopped";
  return presets.some((p) => p.rollout) ? "progressing" : undefined;
}

/** slotsOf is the strip of one version in one preset. Of the active one, what is missing to desired is empty. */
export function slotsOf(preset: PresetRollout, v: VersionSlots): Slots {
  const s = v.slots;
  return {
    ready: s.ready,
    outdated: s.outdated,
    starting: s.starting,
    empty: v.active ? Math.max(0, preset.desired - s.ready - s.starting) : 0,
    draining: s.leaving,
    failed: s.failed,
    claimed: s.claimed,
  };
}

/** versionsOf are those of a preset that have workspaces, and the active one in any case. */
export function versionsOf(preset: PresetRollout, active: number): readonly VersionSlots[] {
  if (preset.versions.some((v) => v.active)) return preset.versions;
  const none = { ready: 0, outdated: 0, starting: 0, leaving: 0, failed: 0, claimed: 0 };
  return [{ version: active, active: true, slots: none }, ...preset.versions];
}

/** stops are why rollouts stopped, each with the presets that it is so of. */
export function stops(presets: readonly PresetRollout[]): { reason: string; presets: string[] }[] {
  const by = new Map<string, string[]>();
  for (const p of presets) {
    if (p.rollout?.phase !== "stopped") continue;
    const reason = p.rollout.reason ?? "the new version does not become ready";
    by.set(reason, [...(by.get(reason) ?? []), p.preset]);
  }
  return [...by].map(([reason, names]) => ({ reason, presets: names }));
}

/** listed is a list in words, cut where it gets long. */
export function listed(names: readonly string[]): string {
  if (names.length > 4) return `${names.slice(0, 3).join(", ")} and ${names.length - 3} others`;
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

const mostPresets = 50;

/** RolloutView is how far the active version has come, preset by preset. */
export function RolloutView({ rollout }: { rollout: TemplateRollout }) {
  const stopped = stops(rollout.presets);
  // Those with something to see come first; the others are one like the other.
  const shown = [...rollout.presets].sort((a, b) => Number(!!b.rollout) - Number(!!a.rollout)).slice(0, mostPresets);
  return (
    <>
      {stopped.map(({ reason, presets }) => (
        <Notice key={reason} tone="bad">
          <p className="font-semibold">
            The rollout of {listed(presets)} stopped; {presets.length === 1 ? "the old pool is" : "the old pools are"} kept.
          </p>
          <p className="text-ink-2">
            {reason.charAt(0).toUpperCase() + reason.slice(1)}.{" "}
            {rollout.back !== undefined
              ? `Roll back to version ${rollout.back}, or apply a version that works.`
              : "Apply a version that works."}
          </p>
        </Notice>
      ))}
      <Section title="Rollout" beside={<StripLegend />}>
        {shown.length === 0 ? (
          <p className="text-ink-2">It has no preset, so there is nothing to build.</p>
        ) : (
          <ul className="-my-1 divide-y divide-line">
            {shown.map((p) => (
              <Preset key={p.preset} preset={p} rollout={rollout} />
            ))}
          </ul>
        )}
        {rollout.presets.length > mostPresets && (
          <p className="mt-3 text-sm text-ink-2">
            {mostPresets} of {counted(rollout.presets.length, "preset")}, those that roll out first.
          </p>
        )}
      </Section>
    </>
  );
}

function Preset({ preset: p, rollout }: { preset: PresetRollout; rollout: TemplateRollout }) {
  return (
    <li className="grid gap-x-6 gap-y-3 py-4 md:grid-cols-[minmax(9rem,14rem)_minmax(0,1fr)]">
      <div className="min-w-0">
        <Link
          to="/presets/$template/$preset"
          params={{ template: rollout.template, preset: p.preset }}
          className="link font-medium break-words"
        >
          {p.preset}
        </Link>
        <p className="mt-1">
          <Phase preset={p} />
        </p>
      </div>
      <div className="flex min-w-0 flex-col gap-2">
        {versionsOf(p, rollout.version).map((v) => (
          <div key={v.version} className="grid grid-cols-[5.5rem_minmax(0,1fr)] items-center gap-3">
            <span className={`text-sm ${v.active ? "font-semibold" : "text-ink-2"}`}>
              version {v.version}
              {v.active && <span className="block text-2xs font-normal text-ink-2">active</span>}
            </span>
            <Strip slots={slotsOf(p, v)} room={36} />
          </div>
        ))}
        {p.rollout && (
          <p className="text-sm text-ink-2">
            {p.rollout.ready} of {p.rollout.desired} ready, {p.rollout.outdated} of older versions kept until then
            {p.rollout.phase === "progressing" && p.rollout.reason ? `: ${p.rollout.reason}` : ""}.
          </p>
        )}
        {p.deadline_at && p.rollout?.phase !== "stopped" && (
          <p className="flex items-center gap-1.5 text-sm text-ink-2">
            <Icon name="clock" />
            <span>
              It stops <RelativeTime at={p.deadline_at} /> unless one becomes ready by then.
            </span>
          </p>
        )}
        {p.failures !== undefined && p.failures > 0 && (
          <p className="flex min-w-0 items-start gap-1.5 text-sm">
            <Icon name="alert" className="mt-0.5 size-4 text-failed" />
            <span className="min-w-0 break-words">
              {p.failures === 1 ? "A create failed" : `Creates failed ${p.failures} times in a row`}: {p.fault}
            </span>
          </p>
        )}
      </div>
    </li>
  );
}

function Phase({ preset: p }: { preset: PresetRollout }) {
  if (p.rollout?.phase === "stopped") return <Badge icon="alert" colour="text-failed" text="stopped" />;
  if (p.rollout) return <Badge icon="refresh" colour="text-starting" text="rolling out" />;
  if (p.paused) return <Badge icon="pause" colour="text-draining" text="paused" />;
  if (!p.pool) return <Badge icon="empty" text="no pool" />;
  const active = p.versions.find((v) => v.active)?.slots;
  if ((active?.ready ?? 0) >= p.desired) return <Badge icon="check" colour="text-ready" text="complete" />;
  return <Badge icon="building" colour="text-starting" text="filling" />;
}
