import { useState } from "react";
import { Confirm } from "../../components/Dialog";
import type { Workspace } from "../../generated/api";
import { useAct, useRead } from "../../services/query";
import { useMay } from "../../services/session";

const going: readonly Workspace["state"][] = ["draining", "deleting"];

/** Actions are what can be done to a workspace as it is now. */
export function Actions({ workspace: w }: { workspace: Workspace }) {
  const may = useMay();
  const owner = useRead("whoami").data?.role === "owner";
  const release = useAct("release-workspace");
  const retry = useAct("retry-workspace");
  const params = { workspace: w.name };
  return (
    <>
      {w.state === "claimed" && may("release-workspace") && (
        <Confirm
          act="Release"
          look="primary"
          icon="back"
          title={`Release ${w.name}?`}
          effect={`The claim of ${w.owner} ends. The workspace is deleted with what is in it, or reset where its template reuses workspaces.`}
          done={`${w.name} is released.`}
          run={() => release.mutateAsync({ params })}
        />
      )}
      {w.state === "quarantined" && may("retry-workspace") && (
        <Confirm
          act="Retry"
          icon="refresh"
          title={`Retry ${w.name}?`}
          effect="Checks again whether it is ready, or creates it if nothing was ever created."
          done={`${w.name} is retried.`}
          run={() => retry.mutateAsync({ params })}
        />
      )}
      {w.state === "claimed" && w.handover === "failed" && may("retry-workspace") && (
        <Confirm
          act="Apply again"
          icon="refresh"
          title={`Apply ${w.name} again for its owner?`}
          effect="What would have to be replaced or removed is refused. The workspace can be used meanwhile, and stays as it is if this fails."
          done={`${w.name} is applied again.`}
          run={() => retry.mutateAsync({ params })}
        />
      )}
      {["starting", "ready", "standby", "quarantined"].includes(w.state) && may("keep-workspace") && <Keep workspace={w} />}
      {!going.includes(w.state) && may("delete-workspace") && <Delete workspace={w} owner={owner} />}
      {going.includes(w.state) && owner && <Force workspace={w} />}
    </>
  );
}

function Keep({ workspace: w }: { workspace: Workspace }) {
  const keep = useAct("keep-workspace");
  const [time, setTime] = useState("24h");
  const longer = w.state === "quarantined";
  return (
    <Confirm
      act={longer ? "Keep longer" : "Keep for inspection"}
      icon="search"
      title={`Keep ${w.name} ${longer ? "for longer" : "for inspection"}?`}
      effect={
        longer
          ? "It stays quarantined for so long from now on; then it is deleted."
          : "It leaves its pool: it is quarantined, so that nobody claims it and no pass touches it, and its pool builds another. It counts against the maximum of its provider until it is deleted or retried."
      }
      done={`${w.name} is kept.`}
      reason="required"
      run={(reason) => keep.mutateAsync({ params: { workspace: w.name }, body: { reason, for: time } })}
    >
      <label className="flex flex-col gap-1.5 text-sm font-medium">
        For how long
        <select className="field" value={time} onChange={(e) => setTime(e.target.value)}>
          <option value="2h">2 hours</option>
          <option value="24h">a day</option>
          <option value="168h">a week</option>
        </select>
      </label>
    </Confirm>
  );
}

function Delete({ workspace: w, owner }: { workspace: Workspace; owner: boolean }) {
  const remove = useAct("delete-workspace");
  const [force, setForce] = useState(false);
  return (
    <Confirm
      act="Delete"
      look="danger"
      icon="trash"
      title={`Delete ${w.name}?`}
      effect={
        w.state === "claimed" ? `It is in use by ${w.owner}. What is in it is lost.` : "Its pool builds another one, if it is still wanted."
      }
      done={`${w.name} is being deleted.`}
      run={() => remove.mutateAsync({ params: { workspace: w.name, ...(force && { force }) } })}
    >
      {owner && (
        <label className="flex items-start gap-2.5 text-sm">
          <input type="checkbox" className="mt-1" checked={force} onChange={(e) => setForce(e.target.checked)} />
          <span>
            Force
            <span className="block text-ink-2">
              Whatever its provider says: it counts as deleted even if the provider fails, and what is left there is watched for.
            </span>
          </span>
        </label>
      )}
    </Confirm>
  );
}

function Force({ workspace: w }: { workspace: Workspace }) {
  const remove = useAct("delete-workspace");
  return (
    <Confirm
      act="Delete by force"
      look="danger"
      icon="trash"
      title={`Delete ${w.name} by force?`}
      effect="The wait for the next try ends, and it counts as deleted even if its provider fails. What is left there is watched for, and deleted when it is seen."
      done={`${w.name} is deleted by force.`}
      run={() => remove.mutateAsync({ params: { workspace: w.name, force: true } })}
    />
  );
}

/** Renew makes the lease of a claim last longer. */
export function Renew({ workspace: w }: { workspace: Workspace }) {
  const renew = useAct("renew-workspace");
  const [lease, setLease] = useState(w.lease_until ? "" : "8h");
  return (
    <Confirm
      act={w.lease_until ? "Renew the lease" : "Give it a lease"}
      icon="clock"
      title={w.lease_until ? `Renew the lease of ${w.name}?` : `Give ${w.name} a lease?`}
      effect={`At its end, ${w.name} is released and its content is deleted.`}
      done={`The lease of ${w.name} is renewed.`}
      run={() => renew.mutateAsync({ params: { workspace: w.name }, body: { ...(lease && { lease }) } })}
    >
      <label className="flex flex-col gap-1.5 text-sm font-medium">
        From now on for
        <select className="field" value={lease} onChange={(e) => setLease(e.target.value)}>
          {w.lease_until && <option value="">as long as at first</option>}
          <option value="1h">an hour</option>
          <option value="8h">8 hours</option>
          <option value="24h">a day</option>
          <option value="168h">a week</option>
        </select>
      </label>
    </Confirm>
  );
}
