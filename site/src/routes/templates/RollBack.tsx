import { Confirm } from "../../components/Dialog";
import type { TemplateRollout } from "../../generated/api";
import { useAct } from "../../services/query";

/** unclaimed is how many unclaimed ones there are of a template. */
export function unclaimed(rollout: TemplateRollout | undefined, which: (active: boolean) => boolean = () => true): number {
  let n = 0;
  for (const preset of rollout?.presets ?? []) {
    for (const v of preset.versions) {
      const s = v.slots;
      if (which(v.active)) n += s.ready + s.outdated + s.starting + s.failed;
    }
  }
  return n;
}

/** RollBack makes another version the active one. */
export function RollBack({ template, from, to, rollout, act }: {
  template: string;
  from: number;
  to: number;
  rollout?: TemplateRollout | undefined;
  act?: string;
}) {
  const rollback = useAct("rollback-template");
  const left = unclaimed(rollout, (active) => !active);
  return (
    <Confirm
      act={act ?? `Roll back to ${to}`}
      icon="back"
      title={`Make version ${to} of ${template} the active one?`}
      effect={
        <>
          Version {from} is left: its pending creates are cancelled, and its prebuilds are replaced.{" "}
          {left > 0 ? `What is there of version ${to} is current again at once. ` : ""}
          Settings and presets stay what they are, and so does what is claimed. Applying the same file again activates its
          version again.
        </>
      }
      done={`Version ${to} of ${template} is active.`}
      reason
      run={(reason) => rollback.mutateAsync({ params: { template }, body: { version: to, reason } })}
    />
  );
}
