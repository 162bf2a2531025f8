import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Confirm } from "../../components/Dialog";
import { Section } from "../../components/Page";
import { Resume } from "../../components/PauseBanner";
import { RelativeTime } from "../../components/Time";
import type { Pause, PauseRequest, Pool } from "../../generated/api";
import { read, useAct } from "../../services/query";
import { useMay } from "../../services/session";

type Scope = Pause["scope"];

const scopes: readonly (readonly [Scope, string])[] = [
  ["global", "All pools"],
  ["provider", "A provider"],
  ["template", "A template"],
  ["preset", "A preset"],
];

/** targets are what a pause of a scope can name, by what pools there are. */
export function targets(scope: Scope, pools: readonly Pool[]): string[] {
  const of: Record<Scope, (p: Pool) => string> = {
    global: () => "",
    provider: (p) => p.provider,
    template: (p) => p.template,
    preset: (p) => `${p.template}/${p.preset}`,
  };
  return scope === "global" ? [] : [...new Set(pools.map(of[scope]))].sort();
}

/** PauseForm makes a pause of any scope. */
export function PauseForm({ pools, run }: { pools: readonly Pool[]; run: (pause: PauseRequest) => Promise<unknown> }) {
  const [scope, setScope] = useState<Scope>("global");
  const [chosen, setChosen] = useState("");
  const [time, setTime] = useState("2h");
  const list = targets(scope, pools);
  const target = list.includes(chosen) ? chosen : list[0];
  return (
    <Confirm
      act="Pause…"
      submit="Pause"
      icon="pause"
      title="Pause pools"
      effect="Nothing is created or drained while the pause holds. Claims go on, and what is claimed is not replaced."
      done={scope === "global" ? "All pools are paused." : `Paused ${scope} ${target}.`}
      reason="required"
      run={(reason) =>
        run({ scope, reason, ...(scope !== "global" && target && { target }), ...(time && { expires_in: time }) })
      }
    >
      <label className="flex flex-col gap-1.5 text-sm font-medium">
        What to pause
        <select className="field" value={scope} onChange={(e) => setScope(e.target.value as Scope)}>
          {scopes.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
      </label>
      {scope !== "global" && (
        <label className="flex flex-col gap-1.5 text-sm font-medium">
          Which {scope}
          <select className="field" value={target} onChange={(e) => setChosen(e.target.value)}>
            {list.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
      <label className="flex flex-col gap-1.5 text-sm font-medium">
        For how long
        <select className="field" value={time} onChange={(e) => setTime(e.target.value)}>
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

/** PauseAny is the button that makes a pause, for roles that may. */
export function PauseAny({ pools }: { pools: readonly Pool[] }) {
  const may = useMay();
  const pause = useAct("create-pause");
  if (!may("create-pause")) return null;
  return <PauseForm pools={pools} run={(body) => pause.mutateAsync({ body })} />;
}

/** Pauses lists those in effect but the global one, which has its banner. */
export function Pauses() {
  const may = useMay();
  const pauses = useQuery({ ...read("list-pauses"), enabled: may("list-pauses") });
  const list = pauses.data?.filter((p) => p.scope !== "global") ?? [];
  if (list.length === 0) return null;
  return (
    <Section title="Pauses">
      <ul className="-my-1 divide-y divide-line">
        {list.map((p) => (
          <li key={`${p.scope} ${p.target}`} className="flex flex-wrap items-center gap-3 py-2">
            <span className="min-w-0 grow break-words">
              <b className="font-medium">
                {p.scope} {p.target}
              </b>
              , by {p.created_by}: {p.reason},{" "}
              {p.expires_at ? (
                <>
                  ends <RelativeTime at={p.expires_at} />
                </>
              ) : (
                "until somebody resumes"
              )}
            </span>
            {may("delete-pause") && <Resume pause={p} />}
          </li>
        ))}
      </ul>
    </Section>
  );
}
