import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { Bar } from "../../components/Bar";
import { Copied } from "../../components/Copied";
import { Confirm } from "../../components/Dialog";
import { Badge } from "../../components/StateBadge";
import { RelativeTime } from "../../components/Time";
import type { ForgeEntity } from "../../generated/api";
import { useNow } from "../../services/time";
import { standing } from "./jobs";

interface Props {
  forges: readonly ForgeEntity[];
  onStop?: ((forge: string, reason: string, drain: boolean) => Promise<unknown>) | undefined;
  onStart?: ((forge: string) => Promise<unknown>) | undefined;
  /** A button for its webhook at the forge. */
  webhook?: ((forge: ForgeEntity) => ReactNode) | undefined;
}

/** ForgesView is all forges there are, each in one look. */
export function ForgesView({ forges, onStop, onStart, webhook }: Props) {
  return (
    <ul className="grid gap-4 xl:grid-cols-2" aria-label="Forges">
      {forges.map((f) => (
        <ForgeCard key={f.id} forge={f} onStop={onStop} onStart={onStart} webhook={webhook} />
      ))}
    </ul>
  );
}

function ForgeCard({ forge: f, onStop, onStart, webhook }: Omit<Props, "forges"> & { forge: ForgeEntity }) {
  const now = useNow();
  return (
    <li className="card flex min-w-0 flex-col gap-4 p-5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h2 className="text-base font-semibold break-all">{f.name}</h2>
        <span className="grow text-sm break-all text-ink-2">
          {f.kind} {f.scope} {f.path}
        </span>
        <Badge {...standing(f, now)} />
      </div>
      <Trouble forge={f} now={now} />
      <Numbers forge={f} />
      <Rate forge={f} />
      <Webhook forge={f} />
      <Serving forge={f} />
      <div className="mt-auto flex flex-wrap justify-end gap-2">
        {webhook?.(f)}
        {f.stopped_at
          ? onStart && (
              <Confirm
                key="start" // with keys, a dialog that is open does not turn into the other one when the forge changes
                act="Start"
                icon="play"
                title={`Start ${f.name}?`}
                effect="The next pass makes runners again: for the jobs that still wait, and to keep the pool's idle ones."
                done={`Runners are made for ${f.name} again.`}
                run={() => onStart(f.name)}
              />
            )
          : onStop && <StopForge key="stop" forge={f} onStop={onStop} />}
      </div>
    </li>
  );
}

function StopForge({ forge: f, onStop }: { forge: ForgeEntity; onStop: NonNullable<Props["onStop"]> }) {
  const [drain, setDrain] = useState(false);
  return (
    <Confirm
      act="Stop"
      icon="pause"
      title={`Stop ${f.name}?`}
      effect={`No runners are made for it until it is started again: not for ${f.queued === 1 ? "the 1 job that waits" : `the ${f.queued} jobs that wait`}, and none to be idle. Webhooks are still taken, and jobs that run go on.`}
      done={`${f.name} is stopped.`}
      reason="required"
      run={(reason) => onStop(f.name, reason, drain)}
    >
      <label className="flex gap-2 text-sm">
        <input type="checkbox" className="mt-1" checked={drain} onChange={(e) => setDrain(e.target.checked)} />
        <span>
          Drain: runners without a job go too
          <span className="block text-ink-2">Otherwise they stay, and take jobs that the forge gives them.</span>
        </span>
      </label>
    </Confirm>
  );
}

/** Trouble is what is in the way, and until when. */
function Trouble({ forge: f, now }: { forge: ForgeEntity; now: number }) {
  const s = f.status;
  const waits = s.wait_until && Date.parse(s.wait_until) > now;
  const runnersWait = s.runners_wait_until && Date.parse(s.runners_wait_until) > now;
  if (!f.stopped_at && !s.error && !waits && !runnersWait) return null;
  return (
    <div className="flex flex-col gap-1 text-sm break-words">
      {f.stopped_at && (
        <p>
          {f.stopped}
          <span className="block text-ink-2">
            stopped <RelativeTime at={f.stopped_at} />: no new runners are made
            {f.draining ? ", and those without a job go" : ", and those without a job stay"}
          </span>
        </p>
      )}
      {s.error && (
        <p className="text-failed">
          {s.error}
          {s.error_at && (
            <span className="block text-ink-2">
              <RelativeTime at={s.error_at} />; what is warm stays warm
            </span>
          )}
        </p>
      )}
      {waits && s.wait_until && (
        <p className="text-ink-2">
          it is asked again <RelativeTime at={s.wait_until} />
        </p>
      )}
      {runnersWait && s.runners_wait_until && (
        <p className="text-ink-2">
          no runner is registered or unregistered, until <RelativeTime at={s.runners_wait_until} />
          {s.runners_error !== s.error && <>: {s.runners_error}</>}
        </p>
      )}
    </div>
  );
}

function Numbers({ forge: f }: { forge: ForgeEntity }) {
  const numbers: readonly (readonly [name: string, n: number, colour?: string])[] = [
    ["queued", f.queued],
    ["unserved", f.unserved, f.unserved > 0 ? "text-failed" : ""],
    ["in progress", f.in_progress],
    [f.runners === 1 ? "runner" : "runners", f.runners],
  ];
  return (
    <dl className="grid grid-cols-2 gap-3 sm:grid-cols-4" aria-label={`Jobs and runners of ${f.name}`}>
      {numbers.map(([name, n, colour]) => (
        <div key={name} className="flex flex-col-reverse">
          <dt className="text-xs text-ink-2">{name}</dt>
          <dd className={`text-lg font-semibold tabular-nums ${colour ?? ""}`}>{n}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Rate is how much of the forge's limit on requests is left, where it says. */
function Rate({ forge: f }: { forge: ForgeEntity }) {
  const limit = f.status.rate_limit ?? 0;
  if (limit === 0) return null;
  const left = f.status.rate_remaining ?? 0;
  return (
    <div>
      <p className="mb-1.5 text-sm">
        <b className="tabular-nums">{left}</b> of {limit} requests left
        {f.status.rate_reset_at && (
          <span className="text-ink-2">
            , all again <RelativeTime at={f.status.rate_reset_at} />
          </span>
        )}
      </p>
      <Bar
        parts={[{ name: "left", value: left, colour: left < limit / 10 ? "text-failed" : "text-ready" }]}
        whole={limit}
        label={`${left} of ${limit} requests left`}
      />
    </div>
  );
}

function Webhook({ forge: f }: { forge: ForgeEntity }) {
  const s = f.status;
  return (
    <div className="flex flex-col gap-2 text-sm">
      <p>
        {f.hook_id ? "Webhook installed. " : "No webhook was installed by Prewarm. "}
        <span className="text-ink-2">
          {s.delivery_at ? (
            <>
              The last delivery came <RelativeTime at={s.delivery_at} />
            </>
          ) : (
            "Nothing was delivered yet"
          )}
          {s.waiting > 0 && `; ${s.waiting === 1 ? "1 is" : `${s.waiting} are`} not handled yet`}.
        </span>
        {f.secret_overlap && (
          <span className="block text-ink-2">
            The secret before is good until <RelativeTime at={f.secret_overlap} />.
          </span>
        )}
      </p>
      {!f.hook_id && !s.delivery_at && <Copied label="Have it installed" text={`prewarm forge webhook install ${f.name}`} />}
    </div>
  );
}

/** Serving is the presets that have runners of it, or what to do where none has. */
function Serving({ forge: f }: { forge: ForgeEntity }) {
  if (f.presets.length === 0) {
    return (
      <p className="text-sm text-ink-2">
        No preset has runners for this forge: give one a <code>runner</code> block with <code>forge: {f.name}</code>.
      </p>
    );
  }
  return (
    <ul className="flex flex-wrap gap-x-4 gap-y-1 text-sm" aria-label={`Runner presets of ${f.name}`}>
      {f.presets.map((name) => {
        const [template = "", preset = ""] = name.split("/");
        return (
          <li key={name}>
            <Link to="/presets/$template/$preset" params={{ template, preset }} className="link">
              {name}
            </Link>
          </li>
        );
      })}
    </ul>
  );
}
