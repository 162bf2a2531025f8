import { useState } from "react";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { toast } from "../../components/Toasts";
import type { Plan } from "../../generated/api";
import { useAct } from "../../services/query";

/** Resize asks for a number of instances, shows the plan, and applies just that plan. */
export function Resize({ template, preset, instances, current, hint }: {
  template: string;
  preset: string;
  /** What it begins with. */
  instances: number;
  current: number;
  /** Why the number is not all there is to it. */
  hint?: string;
}) {
  const [open, setOpen] = useState(false);
  const name = `${template}/${preset}`;
  return (
    <>
      <Button icon="pools" onClick={() => setOpen(true)}>
        {instances === current ? "Resize" : `Resize to ${instances}`}
      </Button>
      <Dialog title={`Resize ${name}`} open={open} onClose={() => setOpen(false)}>
        <Steps template={template} preset={preset} instances={instances} current={current} hint={hint} close={() => setOpen(false)} />
      </Dialog>
    </>
  );
}

function Steps({ template, preset, instances, current, hint, close }: {
  template: string;
  preset: string;
  instances: number;
  current: number;
  hint?: string;
  close: () => void;
}) {
  const [wanted, setWanted] = useState(instances);
  const [plan, setPlan] = useState<Plan>();
  const [error, setError] = useState("");
  const make = useAct("create-plan");
  const apply = useAct("apply");
  const attempt = async (run: () => Promise<void>) => {
    setError("");
    try {
      await run();
    } catch (e) {
      setPlan(undefined);
      setError(e instanceof Error ? e.message : String(e));
    }
  };
  const look = () =>
    attempt(async () => setPlan(await make.mutateAsync({ body: { resize: { template, preset, instances: wanted } } })));
  const go = (id: string) =>
    attempt(async () => {
      await apply.mutateAsync({ body: { plan: id } });
      toast(`${template}/${preset} is to have ${wanted} ${wanted === 1 ? "instance" : "instances"}.`);
      close();
    });
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(e) => {
        e.preventDefault();
        void (plan ? go(plan.id) : look());
      }}
    >
      <label className="flex flex-col gap-1.5 text-sm font-medium">
        Instances
        <input
          className="field tabular-nums"
          type="number"
          min={0}
          max={10_000}
          required
          value={Number.isNaN(wanted) ? "" : wanted}
          onChange={(e) => {
            setWanted(e.target.valueAsNumber);
            setPlan(undefined);
          }}
        />
        <span className="font-normal text-ink-2">Now {current}. Other presets stay as they are.{hint && ` ${hint}`}</span>
      </label>
      {plan && <PlanView plan={plan} name={`${template}/${preset}`} />}
      {error && (
        <p role="alert" className="text-sm break-words whitespace-pre-line text-failed">
          {error}
        </p>
      )}
      <div className="flex flex-wrap justify-end gap-2">
        <Button look="quiet" onClick={close}>
          Cancel
        </Button>
        {plan ? (
          <Button type="submit" look="primary" busy={apply.isPending} disabled={plan.changes.length === 0}>
            Apply this plan
          </Button>
        ) : (
          <Button type="submit" look="primary" busy={make.isPending}>
            Show the plan
          </Button>
        )}
      </div>
    </form>
  );
}

/** PlanView is what would be changed in the configuration, and what the next pass would do with this pool then. */
export function PlanView({ plan, name }: { plan: Plan; name: string }) {
  const pool = plan.presets.find((p) => `${p.template}/${p.preset}` === name);
  return (
    <section aria-label="Plan" className="flex flex-col gap-3 rounded-lg bg-sunken px-4 py-3">
      {plan.changes.length === 0 ? (
        <p>Nothing would change: it has that many already.</p>
      ) : (
        <ul className="font-mono text-xs">
          {plan.changes.flatMap((c) => (c.fields ?? []).map((f) => <li key={c.name + f}>{f.replace(" -> ", " → ")}</li>))}
        </ul>
      )}
      {pool?.error && <p className="text-sm text-failed">{pool.error}</p>}
      {pool && !pool.error && (
        <>
          <p className="text-sm">
            The next pass{" "}
            {pool.create + pool.drain + pool.cancel === 0 ? (
              "has nothing to do."
            ) : (
              <b className="font-semibold">{acts(pool)}.</b>
            )}
          </p>
          <ol className="divide-y divide-line text-sm">
            {pool.lines.map((line, i) => (
              <li key={i} className="grid grid-cols-[2.5rem_minmax(0,1fr)] gap-3 py-1.5">
                <span className="text-right font-mono tabular-nums">{line.count < 0 ? `−${-line.count}` : line.count}</span>
                <span className="break-words">{line.sentence || line.label}</span>
              </li>
            ))}
          </ol>
        </>
      )}
    </section>
  );
}

/** acts is what a pass would do, in words. */
export function acts({ create, drain, cancel }: { create: number; drain: number; cancel: number }): string {
  const parts = [
    create > 0 && `creates ${create}`,
    drain > 0 && `drains ${drain}`,
    cancel > 0 && `cancels ${cancel} that ${cancel === 1 ? "is" : "are"} being built`,
  ].filter(Boolean);
  return parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : String(parts[0] ?? "");
}
