import { Link } from "@tanstack/react-router";
import { Section } from "../../components/Page";
import { Cells, kinds, StripLegend, type Kind } from "../../components/Strip";
import type { Preset, Workspace, WorkspaceList } from "../../generated/api";
import { counted } from "../../services/words";

const kindOf: Record<Workspace["state"], Kind> = {
  provisioning: "starting",
  starting: "starting",
  ready: "ready",
  standby: "ready",
  claimed: "claimed",
  draining: "draining",
  deleting: "draining",
  deleted: "draining",
  quarantined: "failed",
};

interface Slot {
  kind: Kind;
  workspace?: Workspace;
}

/** slots are the workspaces of a preset and what is missing to desired, in the order of a strip. */
export function slots(preset: Preset, workspaces: readonly Workspace[]): Slot[] {
  const list: Slot[] = workspaces.map((workspace) => {
    const kind = kindOf[workspace.state];
    const old = workspace.version !== preset.version && (kind === "ready" || kind === "starting");
    return { kind: old ? "outdated" : kind, workspace };
  });
  const missing = Math.max(0, preset.desired - list.filter((s) => s.kind === "ready" || s.kind === "starting").length);
  for (let i = 0; i < missing; i++) list.push({ kind: "empty" });
  return list.sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind));
}

/** Slots is the pool itself: a cell for each workspace, which leads to its page. */
export function Slots({ preset, workspaces }: { preset: Preset; workspaces?: WorkspaceList }) {
  const list = workspaces ? slots(preset, workspaces.workspaces) : [];
  return (
    <Section
      title="Slots"
      beside={
        <span className="tabular-nums">
          <b className="text-ink">{preset.actual}</b> ready of {preset.desired} desired, {preset.starting} being built,{" "}
          {preset.claimed} claimed
          {preset.waiting > 0 && `, ${counted(preset.waiting, "claim")} waiting`}
        </span>
      }
    >
      {workspaces ? (
        <ul className="flex flex-wrap gap-1.5" aria-label="Workspaces of this preset">
          {list.slice(0, 500).map((slot, i) => (
            <li key={slot.workspace?.id ?? `empty-${i}`}>
              <SlotCell slot={slot} />
            </li>
          ))}
        </ul>
      ) : (
        <p className="text-ink-2">Counts only: the workspaces of others are not yours to see.</p>
      )}
      {workspaces?.next && <p className="mt-3 text-sm text-ink-2">These are the newest 500; there are more.</p>}
      <div className="mt-4">
        <StripLegend />
      </div>
    </Section>
  );
}

function SlotCell({ slot }: { slot: Slot }) {
  const picture = (
    <svg viewBox="0 0 11 18" width="22" height="36" aria-hidden="true">
      <Cells kind={slot.kind} />
    </svg>
  );
  if (!slot.workspace) {
    return (
      <span role="img" aria-label="an empty slot" title="an empty slot" className="block">
        {picture}
      </span>
    );
  }
  const { name, state, owner } = slot.workspace;
  const what = `${name}, ${slot.kind === "outdated" ? "outdated, " : ""}${state}${state === "claimed" ? ` by ${owner}` : ""}`;
  return (
    <Link
      to="/workspaces/$workspace"
      params={{ workspace: name }}
      preload={false}
      aria-label={what}
      title={what}
      className="block rounded transition-transform hover:-translate-y-0.5"
    >
      {picture}
    </Link>
  );
}
