import type { Workspace } from "../generated/api";
import { Icon, type IconName } from "./Icon";

export type State = Workspace["state"];

const states: Record<State, { icon: IconName; colour: string }> = {
  provisioning: { icon: "building", colour: "text-starting" },
  starting: { icon: "play", colour: "text-starting" },
  ready: { icon: "check", colour: "text-ready" },
  standby: { icon: "pause", colour: "text-ready" },
  claimed: { icon: "person", colour: "text-claimed" },
  draining: { icon: "drain", colour: "text-draining" },
  deleting: { icon: "trash", colour: "text-draining" },
  deleted: { icon: "empty", colour: "text-ink-2" },
  quarantined: { icon: "alert", colour: "text-failed" },
};

/** colourOf is the colour of a state, which an icon or a shape goes with. */
export function colourOf(state: string): string {
  return states[state as State]?.colour ?? "text-ink-2";
}

/** StateBadge is the state of a workspace: an icon, a colour and the word. */
export function StateBadge({ state }: { state: string }) {
  const look = states[state as State] ?? { icon: "empty", colour: "text-ink-2" };
  return <Badge icon={look.icon} colour={look.colour} text={state} />;
}

/** Badge is a word with an icon. */
export function Badge({ icon, colour = "text-ink-2", text }: { icon: IconName; colour?: string; text: string }) {
  return (
    <span className="inline-flex items-center gap-1.5 rounded-full border border-line bg-surface px-2.5 py-0.5 text-xs font-medium whitespace-nowrap">
      <Icon name={icon} className={`size-3.5 ${colour}`} />
      {text}
    </span>
  );
}
