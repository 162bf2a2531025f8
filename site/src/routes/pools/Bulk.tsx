import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Dialog";
import { Icon } from "../../components/Icon";
import type { Pool } from "../../generated/api";
import { call } from "../../services/api";
import { refresh } from "../../services/query";
import { useMay } from "../../services/session";
import { counted } from "../../services/words";

const name = (p: Pool) => `${p.template}/${p.preset}`;
const own = (p: Pool) => p.paused_scope === "preset";
const count = (n: number) => counted(n, "pool");

/** Outcome is what became of one pool: nothing went wrong, or the error. */
export interface Outcome {
  pool: string;
  error?: string;
}

/** each does something to one pool after the other, also after one has failed. */
export async function each(pools: readonly Pool[], act: (p: Pool) => Promise<unknown>): Promise<Outcome[]> {
  const all: Outcome[] = [];
  for (const p of pools) {
    try {
      await act(p);
      all.push({ pool: name(p) });
    } catch (e) {
      all.push({ pool: name(p), error: e instanceof Error ? e.message : String(e) });
    }
  }
  return all;
}

/** sum is how many of the pools it was done to: 3 pools paused, or 2 of 3 pools paused. */
export function sum(all: readonly Outcome[], did: string): string {
  const well = all.filter((o) => !o.error).length;
  return `${well === all.length ? count(well) : `${well} of ${count(all.length)}`} ${did}.`;
}

/** Bulk is what can be done to all pools that are selected, and what came of the last act. */
export function Bulk({ pools, onClear }: { pools: readonly Pool[]; onClear: () => void }) {
  const may = useMay();
  const client = useQueryClient();
  const [last, setLast] = useState<{ did: string; outcomes: readonly Outcome[] }>();
  const run = (of: readonly Pool[], did: string, act: (p: Pool) => Promise<unknown>) => async () => {
    const outcomes = await each(of, act);
    setLast({ did, outcomes });
    onClear();
    await refresh(client);
    return sum(outcomes, did);
  };
  const paused = pools.filter(own);
  const running = pools.filter((p) => !own(p));
  // What is being built is finished and not replaced twice.
  const unclaimed = pools.reduce((n, p) => n + p.slots.ready + p.slots.starting + p.slots.outdated, 0);
  return (
    <>
      {last && <Outcomes {...last} onDismiss={() => setLast(undefined)} />}
      {pools.length > 0 && (
        <section
          aria-label="Selected pools"
          className="card sticky bottom-4 z-10 flex flex-wrap items-center gap-2 border-line-strong px-4 py-2.5"
        >
          <p className="grow font-medium" role="status">
            {count(pools.length)} selected
          </p>
          {may("create-pause") && running.length > 0 && (
            <Confirm
              act="Pause"
              icon="pause"
              title={`Pause ${count(running.length)}?`}
              effect="Nothing is created or drained in them for two hours, or until somebody resumes. Claims go on."
              done=""
              reason="required"
              run={(reason) =>
                run(running, "paused", (p) =>
                  call("create-pause", { body: { scope: "preset", target: name(p), reason, expires_in: "2h" } }),
                )()
              }
            />
          )}
          {may("delete-pause") && paused.length > 0 && (
            <Confirm
              act="Resume"
              icon="play"
              title={`Resume ${count(paused.length)}?`}
              effect="The next pass creates and drains again as needed."
              done=""
              run={run(paused, "resumed", (p) => call("delete-pause", { params: { scope: "preset", target: name(p) } }))}
            />
          )}
          {may("nudge-preset") && (
            <Confirm
              act="Nudge"
              icon="refresh"
              title={`Nudge ${count(pools.length)}?`}
              effect="A pass over their templates is requested now, before the next tick. No setting is changed."
              done=""
              run={run(pools, "nudged", (p) => call("nudge-preset", { params: { template: p.template, preset: p.preset } }))}
            />
          )}
          {may("invalidate-preset") && (
            <Confirm
              act="Replace"
              icon="refresh"
              look="danger"
              title={`Replace all prebuilds of ${count(pools.length)}?`}
              effect={
                <>
                  Replaces {counted(unclaimed, "unclaimed prebuild")}, as a new version would, while the pools stay available. Claimed
                  workspaces are not touched.
                  <Names pools={pools} />
                </>
              }
              done=""
              reason
              run={(reason) =>
                run(pools, "being replaced", (p) =>
                  call("invalidate-preset", { params: { template: p.template, preset: p.preset }, body: { reason } }),
                )()
              }
            />
          )}
          <Button look="quiet" onClick={onClear}>
            Clear selection
          </Button>
        </section>
      )}
    </>
  );
}

/** Names lists what an act is done to, so that a wrong selection is seen before. */
function Names({ pools }: { pools: readonly Pool[] }) {
  return (
    <ul className="mt-3 max-h-40 overflow-auto rounded-lg bg-sunken px-3 py-2 text-sm text-ink" tabIndex={0} aria-label="Pools to replace">
      {pools.map((p) => (
        <li key={p.id} className="break-all">
          {name(p)}
        </li>
      ))}
    </ul>
  );
}

/** Outcomes is what came of an act on several pools: each of them, those first where it failed. */
export function Outcomes({ did, outcomes, onDismiss }: { did: string; outcomes: readonly Outcome[]; onDismiss: () => void }) {
  const ordered = [...outcomes].sort((a, b) => Number(b.error !== undefined) - Number(a.error !== undefined));
  return (
    <section aria-label="What happened" className="card px-5 py-3">
      <div className="flex items-center gap-3">
        <h2 className="grow font-semibold">{sum(outcomes, did)}</h2>
        <Button look="quiet" onClick={onDismiss}>
          Dismiss
        </Button>
      </div>
      <ul className="max-h-60 overflow-auto text-sm" tabIndex={0} aria-label={`Pools ${did}`}>
        {ordered.map((o) => (
          <li key={o.pool} className="flex gap-2 py-0.5">
            <Icon name={o.error ? "alert" : "check"} className={`mt-0.5 size-4 shrink-0 ${o.error ? "text-failed" : "text-ready"}`} />
            <span className="min-w-0 break-words">
              <b className="font-medium">{o.pool}</b> {o.error ? `was not changed: ${o.error}` : did}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
