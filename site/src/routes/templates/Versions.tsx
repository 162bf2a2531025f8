import { useState } from "react";
import { More } from "../../components/More";
import { Section } from "../../components/Page";
import { Badge } from "../../components/StateBadge";
import { ErrorState, Loading } from "../../components/Status";
import { RelativeTime } from "../../components/Time";
import { Button } from "../../components/Button";
import type { TemplateVersion } from "../../generated/api";
import { useRead } from "../../services/query";
import { useMay } from "../../services/session";
import { Diff } from "./Diff";
import { RollBack } from "./RollBack";

interface Compared {
  from?: number | undefined;
  to?: number | undefined;
}

/** between is which two versions are compared where nobody chose: the active one, and the one before it. */
export function between(versions: readonly TemplateVersion[], chosen: Compared): { from?: number; to?: number } {
  const active = versions.find((v) => v.active)?.number ?? versions[0]?.number;
  const to = chosen.to ?? active;
  const from = chosen.from ?? versions.find((v) => to !== undefined && v.number < to)?.number;
  return { from: from ?? versions.find((v) => v.number !== to)?.number, to };
}

interface Props {
  template: string;
  versions: readonly TemplateVersion[];
  pages: Parameters<typeof More>[0]["of"];
  compared: Compared;
  onCompare: (from: number | undefined, to: number | undefined) => void;
}

/** Versions are those of a template, and what differs between two of them. */
export function Versions({ template, versions, pages, compared, onCompare }: Props) {
  const may = useMay();
  const active = versions.find((v) => v.active)?.number;
  const { from, to } = between(versions, compared);
  return (
    <>
      <Section title="Versions">
        <ol className="-my-1 divide-y divide-line" aria-label={`Versions of ${template}`}>
          {versions.map((v) => (
            <li key={v.id} className="flex flex-wrap items-center gap-x-6 gap-y-2 py-3">
              <div className="flex w-44 items-center gap-2">
                <span className="font-medium">Version {v.number}</span>
                {v.active && <Badge icon="check" colour="text-ready" text="active" />}
              </div>
              <p className="min-w-0 grow text-sm text-ink-2">
                by {v.created_by} <RelativeTime at={v.created_at} /> on {v.provider}
                <span className="mx-1.5">·</span>
                {counts(v)}
                <span className="mx-1.5">·</span>
                <code className="font-mono text-xs" title={v.hash}>
                  {v.hash.slice(0, 12)}
                </code>
              </p>
              <div className="flex flex-wrap gap-2">
                {!v.active && active !== undefined && (
                  <Button
                    look="quiet"
                    aria-label={`Compare version ${v.number} with the active one`}
                    onClick={() => onCompare(Math.min(v.number, active), Math.max(v.number, active))}
                  >
                    Compare
                  </Button>
                )}
                {!v.active && active !== undefined && may("rollback-template") && (
                  <RollBack template={template} from={active} to={v.number} act={`Activate ${v.number}`} />
                )}
              </div>
            </li>
          ))}
        </ol>
        {pages.hasNextPage && (
          <div className="mt-3">
            <More of={pages} shown={versions.length} what="versions" />
          </div>
        )}
      </Section>
      {from !== undefined && to !== undefined && (
        <Section
          title="What differs"
          beside={
            <span className="flex flex-wrap items-center gap-2">
              <Choice label="Before" value={from} versions={versions} onChange={(n) => onCompare(n, to)} />
              and
              <Choice label="After" value={to} versions={versions} onChange={(n) => onCompare(from, n)} />
            </span>
          }
        >
          <Compare template={template} from={from} to={to} />
        </Section>
      )}
      {versions.length === 1 && active !== undefined && <Single template={template} number={active} />}
    </>
  );
}

/** counts says how many workspaces there are of a version. */
export function counts(v: Pick<TemplateVersion, "unclaimed" | "claimed">): string {
  const parts = [v.unclaimed > 0 && `${v.unclaimed} unclaimed`, v.claimed > 0 && `${v.claimed} claimed`].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : "no workspaces";
}

function Choice({ label, value, versions, onChange }: {
  label: string;
  value: number;
  versions: readonly TemplateVersion[];
  onChange: (number: number) => void;
}) {
  const known = versions.some((v) => v.number === value);
  return (
    <select
      aria-label={label}
      className="field w-auto py-1 text-sm text-ink"
      value={value}
      onChange={(e) => onChange(Number(e.target.value))}
    >
      {!known && <option value={value}>version {value}</option>}
      {versions.map((v) => (
        <option key={v.id} value={v.number}>
          version {v.number}
          {v.active ? ", active" : ""}
        </option>
      ))}
    </select>
  );
}

function Compare({ template, from, to }: { template: string; from: number; to: number }) {
  const before = useRead("get-template-version", { params: { template, version: from } });
  const after = useRead("get-template-version", { params: { template, version: to } });
  const error = before.error ?? after.error;
  if (error) return <ErrorState error={error} retry={() => void (before.error ? before : after).refetch()} />;
  if (!before.data || !after.data) return <Loading lines={4} />;
  return <Diff before={before.data.text} after={after.data.text} names={[`version ${from}`, `version ${to}`]} />;
}

/** Single is the spec of the only version there is: there is nothing to compare it with. */
function Single({ template, number }: { template: string; number: number }) {
  const [open, setOpen] = useState(false);
  const read = useRead("get-template-version", { params: { template, version: number } });
  return (
    <Section title={`Spec of version ${number}`}>
      <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
        <summary className="text-sm text-ink-2">{open ? "Hide it" : "Show it"}</summary>
        {read.data && (
          <pre tabIndex={0} aria-label="Spec" className="mt-3 max-h-96 overflow-auto rounded-lg bg-sunken p-3 font-mono text-xs">
            {read.data.text}
          </pre>
        )}
      </details>
    </Section>
  );
}
