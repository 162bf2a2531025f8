import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Dialog";
import { toast } from "../../components/Toasts";
import type { Preset } from "../../generated/api";
import { call } from "../../services/api";
import { useAct } from "../../services/query";
import { useMay } from "../../services/session";
import { blocked } from "../../services/status";
import { counted, verb } from "../../services/words";

/** Actions are those on the whole pool. What belongs to a part of the page is there: Nudge, Reset, Resize. */
export function Actions({ preset, failures }: { preset: Preset; failures: number }) {
  const may = useMay();
  const params = { template: preset.template, preset: preset.preset };
  const name = `${preset.template}/${preset.preset}`;
  const invalidate = useAct("invalidate-preset");
  const resume = useAct("delete-pause");
  const unclaimed = preset.actual + preset.starting;
  const own = preset.paused_scope === "preset";
  return (
    <>
      {may("create-claim") && !preset.runner && <Claim {...params} blocked={blocked(preset, failures)} />}
      {may("create-pause") && !own && <Pause name={name} preset={preset} />}
      {may("delete-pause") && own && (
        <Confirm
          act="Resume"
          icon="play"
          title={`Resume ${name}?`}
          effect="The next pass creates and drains again as needed."
          done={`${name} is resumed.`}
          run={() => resume.mutateAsync({ params: { scope: "preset", target: name } })}
        />
      )}
      {may("invalidate-preset") && (
        <Confirm
          act="Replace all"
          icon="refresh"
          title={`Replace all prebuilds of ${name}?`}
          effect={
            <>
              Replaces {counted(unclaimed, "unclaimed prebuild")}, as a new version would, while the pool stays available.
              Claimed workspaces are not touched.
            </>
          }
          done={`The prebuilds of ${name} are being replaced.`}
          reason
          run={(reason) => invalidate.mutateAsync({ params, body: { reason } })}
        />
      )}
    </>
  );
}

/** Nudge asks for a pass now. */
export function Nudge({ template, preset }: { template: string; preset: string }) {
  const nudge = useAct("nudge-preset");
  return (
    <Confirm
      act="Nudge"
      look="quiet"
      title={`Nudge ${template}/${preset}?`}
      effect="Requests a pass over its template now, before the next tick. No setting is changed."
      done="A pass was requested."
      run={() => nudge.mutateAsync({ params: { template, preset } })}
    />
  );
}

/** Reset forgets failures. */
export function Reset({ template, preset }: { template: string; preset: string }) {
  const reset = useAct("reset-preset");
  return (
    <Confirm
      act="Reset failures"
      title={`Reset the failures of ${template}/${preset}?`}
      effect="Resets the count of failed creates and starts creates again at once, also past the hard limit. If the cause remains, they fail again."
      done={`Creates of ${template}/${preset} begin again.`}
      reason
      run={(reason) => reset.mutateAsync({ params: { template, preset }, body: { reason } })}
    />
  );
}

function Pause({ name, preset }: { name: string; preset: Preset }) {
  const pause = useAct("create-pause");
  const [hours, setHours] = useState("2h");
  const missing = Math.max(0, preset.desired - preset.actual - preset.starting);
  return (
    <Confirm
      act="Pause"
      icon="pause"
      title={`Pause ${name}?`}
      effect={
        <>
          Nothing is created or drained in this pool until it is resumed or the pause ends. Claims go on, and take from the{" "}
          {preset.eligible} that can be claimed now; what is claimed is not replaced meanwhile.
          {missing > 0 && ` ${missing} missing ${verb(missing, "one stays", "ones stay")} missing.`}
        </>
      }
      done={`${name} is paused.`}
      reason
      run={(reason) =>
        pause.mutateAsync({
          body: { scope: "preset", target: name, reason: reason || "by hand", ...(hours && { expires_in: hours }) },
        })
      }
    >
      <label className="flex flex-col gap-1.5 text-sm font-medium">
        For how long
        <select className="field" value={hours} onChange={(e) => setHours(e.target.value)}>
          <option value="30m">30 minutes</option>
          <option value="2h">2 hours</option>
          <option value="8h">8 hours</option>
          <option value="24h">a day</option>
          <option value="168h">a week</option>
          <option value="">until somebody resumes</option>
        </select>
      </label>
    </Confirm>
  );
}

/** Claim takes a workspace, and goes to it. Where none can come soon it does not wait, and says why. */
function Claim({ template, preset, blocked: why }: { template: string; preset: string; blocked: string | undefined }) {
  const navigate = useNavigate();
  const [busy, setBusy] = useState(false);
  const claim = async () => {
    setBusy(true);
    try {
      const got = await call("create-claim", {
        body: { template, preset, ...(why ? { mode: "require" } : { mode: "prefer", wait: "20s" }) },
      });
      if (!got.name) {
        toast(why ? `${why}.` : `No workspace: ${got.reason ?? "the pool is empty"}`, true);
        return;
      }
      toast(got.outcome === "hit" ? `${got.name} is yours; it was ready.` : `${got.name} is yours.`);
      await navigate({ to: "/workspaces/$workspace", params: { workspace: got.name } });
    } catch (e) {
      toast(e instanceof Error ? e.message : String(e), true);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Button look="primary" icon="person" busy={busy} onClick={() => void claim()}>
      Claim one
    </Button>
  );
}
