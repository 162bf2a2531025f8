import { useQueryClient } from "@tanstack/react-query";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Dialog";
import type { Pool } from "../../generated/api";
import { call } from "../../services/api";
import { useMay } from "../../services/session";

const name = (p: Pool) => `${p.template}/${p.preset}`;
const own = (p: Pool) => p.paused_scope === "preset";
const count = (n: number) => (n === 1 ? "1 pool" : `${n} pools`);

/** each does something to one pool after the other, and says which failed. */
export async function each(pools: readonly Pool[], act: (p: Pool) => Promise<unknown>): Promise<void> {
  const failed: string[] = [];
  for (const p of pools) {
    try {
      await act(p);
    } catch (e) {
      failed.push(`${name(p)}: ${e instanceof Error ? e.message : String(e)}`);
    }
  }
  if (failed.length > 0) throw new Error(`${failed.length} of ${count(pools.length)} failed. ${failed.slice(0, 3).join("; ")}`);
}

/** Bulk is what can be done to all pools that are selected. */
export function Bulk({ pools, onClear }: { pools: readonly Pool[]; onClear: () => void }) {
  const may = useMay();
  const client = useQueryClient();
  const run = (of: readonly Pool[], act: (p: Pool) => Promise<unknown>) => async () => {
    try {
      await each(of, act);
      onClear();
    } finally {
      await client.invalidateQueries();
    }
  };
  const paused = pools.filter(own);
  const running = pools.filter((p) => !own(p));
  return (
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
          done={`${count(running.length)} paused.`}
          reason="required"
          run={(reason) =>
            run(running, (p) => call("create-pause", { body: { scope: "preset", target: name(p), reason, expires_in: "2h" } }))()
          }
        />
      )}
      {may("delete-pause") && paused.length > 0 && (
        <Confirm
          act="Resume"
          icon="play"
          title={`Resume ${count(paused.length)}?`}
          effect="The next pass creates and drains again as needed."
          done={`${count(paused.length)} resumed.`}
          run={run(paused, (p) => call("delete-pause", { params: { scope: "preset", target: name(p) } }))}
        />
      )}
      {may("nudge-preset") && (
        <Confirm
          act="Nudge"
          icon="refresh"
          title={`Nudge ${count(pools.length)}?`}
          effect="A pass over their templates is requested now, before the next tick. No setting is changed."
          done="A pass was requested."
          run={run(pools, (p) => call("nudge-preset", { params: { template: p.template, preset: p.preset } }))}
        />
      )}
      <Button look="quiet" onClick={onClear}>
        Clear selection
      </Button>
    </section>
  );
}
