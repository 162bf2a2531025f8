import { Button } from "../../components/Button";
import { Filters, FilterTime, FilterWords, Narrowed } from "../../components/Filters";
import { Table } from "../../components/Table";
import { RelativeTime } from "../../components/Time";
import type { AuditEntry } from "../../generated/api";
import { changesOf } from "./changes";

export interface AuditSearch {
  q?: string | undefined;
  actor?: string | undefined;
  action?: string | undefined;
  target?: string | undefined;
  since?: string | undefined;
  until?: string | undefined;
  /** Leaves out what Prewarm did by itself. */
  people?: boolean | undefined;
}

/** Actions that people look for; others can be written. */
const common = [
  "workspace.claim",
  "workspace.release",
  "workspace.delete",
  "workspace.renew",
  "template.apply",
  "template.rollback",
  "template.deprecate",
  "template.delete",
  "preset.reset",
  "preset.invalidate",
  "pause.write",
  "provider.resume",
  "provider.confirm",
  "provider.check",
  "token.create",
  "token.revoke",
  "quota.set",
  "self.login",
];

const nothing: AuditSearch = {
  q: undefined,
  actor: undefined,
  action: undefined,
  target: undefined,
  since: undefined,
  until: undefined,
  people: undefined,
};

export function AuditFilters({ search, onChange }: { search: AuditSearch; onChange: (change: Partial<AuditSearch>) => void }) {
  const any = Object.values(search).some((v) => v !== undefined);
  return (
    <Filters>
      <FilterWords of="Who, action, target, reason" value={search.q} suggestions={common} onChange={(q) => onChange({ q })} />
      <FilterTime label="From" value={search.since} onChange={(since) => onChange({ since })} />
      <FilterTime label="Until" value={search.until} onChange={(until) => onChange({ until })} />
      <label className="flex h-9 items-center gap-2 text-sm">
        <input
          type="checkbox"
          checked={search.people ?? false}
          onChange={(e) => onChange({ people: e.target.checked || undefined })}
        />
        only people
      </label>
      <Narrowed
        by={[
          ["Who", search.actor, () => onChange({ actor: undefined })],
          ["Action", search.action, () => onChange({ action: undefined })],
          ["On", search.target, () => onChange({ target: undefined })],
        ]}
      />
      {any && (
        <Button
          look="quiet"
          icon="cross"
          onClick={() => onChange(nothing)}
        >
          Clear filters
        </Button>
      )}
    </Filters>
  );
}

interface Props {
  entries: readonly AuditEntry[];
  onNarrow: (change: Partial<AuditSearch>) => void;
}

/** AuditView is a page of the log. What is in a cell narrows the list to it. */
export function AuditView({ entries, onNarrow }: Props) {
  return (
    <Table
      label="Audit log"
      rows={entries}
      keyOf={(e) => String(e.id)}
      columns={[
        { title: "When", cell: (e) => <RelativeTime at={e.at} /> },
        {
          title: "Who",
          cell: (e) => (
            <Narrow
              text={e.actor || "somebody who is gone"}
              label={`Only what ${e.actor} did`}
              onClick={() => onNarrow({ actor: e.actor || undefined })}
            />
          ),
        },
        {
          title: "What",
          cell: (e) => (
            <Narrow text={e.action} mono label={`Only ${e.action}`} onClick={() => onNarrow({ action: e.action })} />
          ),
        },
        {
          title: "On",
          cell: (e) => (
            <div className="min-w-0 xl:min-w-48">
              <span className="text-ink-2">{e.target_type} </span>
              <Narrow
                text={e.target_name || e.target_id}
                label={`Only what was done to ${e.target_name || e.target_id}`}
                onClick={() => onNarrow({ target: e.target_id })}
              />
            </div>
          ),
        },
        { title: "Details", cell: (e) => <Details entry={e} /> },
        { title: "From", cell: (e) => <span className="font-mono text-xs break-all">{e.source ?? ""}</span> },
      ]}
    />
  );
}

function Narrow({ text, label, mono = false, onClick }: { text: string; label: string; mono?: boolean; onClick: () => void }) {
  return (
    <button
      type="button"
      title={label}
      className={`text-right underline-offset-3 hover:underline md:min-w-16 md:text-left ${mono ? "font-mono text-xs break-words" : "break-all"}`}
      onClick={onClick}
    >
      {text}
    </button>
  );
}

/** Details is the reason that was given, and what was so before and after. */
function Details({ entry: e }: { entry: AuditEntry }) {
  const changes = changesOf(e.before, e.after);
  return (
    <div className="flex min-w-0 flex-col items-end gap-0.5 md:items-start">
      {e.reason && <span className="break-words">{e.reason}</span>}
      {changes.length > 0 && (
        <details className="max-w-full text-xs">
          <summary className="text-ink-2">{changes.length === 1 ? changes[0]?.name : `${changes.length} values`}</summary>
          <dl className="mt-1 flex max-w-md flex-col gap-0.5 text-left font-mono">
            {changes.map((c) => (
              <div key={c.name} className="break-all">
                <dt className="inline text-ink-2">{c.name}: </dt>
                <dd className="inline">
                  {c.before !== undefined && <del>{c.before}</del>}
                  {c.before !== undefined && c.after !== undefined && " → "}
                  {c.after !== undefined && <ins className="no-underline">{c.after}</ins>}
                </dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </div>
  );
}
