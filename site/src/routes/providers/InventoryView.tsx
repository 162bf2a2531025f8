import { Link } from "@tanstack/react-router";
import { Icon } from "../../components/Icon";
import { Badge, StateBadge } from "../../components/StateBadge";
import { Notice } from "../../components/Status";
import { RelativeTime } from "../../components/Time";
import type { Inventory, InventoryEntry } from "../../generated/api";
import { groups, tally, verdicts, type Group } from "./verdicts";
import { counted } from "../../services/words";

/** InventoryView is what both sides have now, by its verdict, and what follows from each. */
export function InventoryView({ inventory: i }: { inventory: Inventory }) {
  const counts = tally(i.counts);
  const amiss = counts.filter(([v]) => v !== "ok" && v !== "making" && v !== "going").reduce((n, [, m]) => n + m, 0);
  return (
    <div className="flex flex-col gap-4">
      {i.site && <h3 className="font-mono text-xs text-ink-2">site {i.site}</h3>}
      {i.error && <Notice tone="warning">It could not be looked at now: {i.error}</Notice>}
      {counts.length > 0 && (
        <ul className="flex flex-wrap gap-x-5 gap-y-2" aria-label="Verdicts">
          {counts.map(([v, n]) => (
            <li key={v} className="flex items-center gap-1.5 text-sm" title={verdicts[v].means}>
              <Icon name={verdicts[v].icon} className={`size-4 ${verdicts[v].colour}`} />
              <b className="tabular-nums">{n}</b> {v}
            </li>
          ))}
        </ul>
      )}
      {!i.error && counts.length === 0 && <p className="text-ink-2">Neither side has anything.</p>}
      {!i.error && counts.length > 0 && amiss === 0 && <p className="text-ink-2">No differences found.</p>}
      {i.entries.length > 0 && (
        <ul className="-my-1 divide-y divide-line" aria-label="Discrepancies">
          {groups(i.entries).map((g) => (
            <Alike key={`${g.verdict} ${g.detail} ${g.next ?? ""}`} group={g} />
          ))}
        </ul>
      )}
      {amiss > i.entries.length && (
        <p className="text-sm text-ink-2">
          {i.entries.length} of {counted(amiss, "discrepancy", "discrepancies")}. All of them: <code>prewarm inventory --provider {i.provider}</code>
        </p>
      )}
    </div>
  );
}

/** Some of what is told in the same words; the others are there on demand. */
const few = 8;

function Alike({ group: g }: { group: Group }) {
  const look = verdicts[g.verdict];
  return (
    <li className="grid gap-x-5 gap-y-2 py-4 sm:grid-cols-[9rem_minmax(0,1fr)]">
      <div className="flex items-center gap-2 self-start">
        <Badge icon={look.icon} colour={look.colour} text={g.verdict} />
        {g.entries.length > 1 && <b className="text-sm tabular-nums">{g.entries.length}</b>}
      </div>
      <div className="flex min-w-0 flex-col gap-2 text-sm">
        <div>
          <p className="break-words first-letter:uppercase">{g.detail}</p>
          {g.next && (
            <p className="flex items-start gap-1.5 text-ink-2">
              <Icon name="chevron" className="mt-0.5 size-4" />
              <span className="min-w-0 break-words">{g.next}</span>
            </p>
          )}
        </div>
        <Names entries={g.entries.slice(0, few)} />
        {g.entries.length > few && (
          <details>
            <summary className="text-ink-2">{g.entries.length - few} more</summary>
            <div className="mt-2">
              <Names entries={g.entries.slice(few)} />
            </div>
          </details>
        )}
      </div>
    </li>
  );
}

function Names({ entries }: { entries: readonly InventoryEntry[] }) {
  return (
    <ul className="flex flex-col gap-1.5">
      {entries.map((e, n) => (
        <li key={`${e.resource ?? ""} ${e.workspace ?? ""} ${n}`} className="flex min-w-0 flex-wrap items-center gap-x-3 gap-y-1">
          {e.workspace ? (
            <Link to="/workspaces/$workspace" params={{ workspace: e.workspace }} className="link font-mono text-xs break-all">
              {e.workspace}
            </Link>
          ) : (
            <code className="font-mono text-xs break-all">{e.resource || e.provider_id}</code>
          )}
          {e.state && <StateBadge state={e.state} />}
          {e.status && <span className="text-ink-2">there: {e.status}</span>}
          {e.since && (
            <span className="text-xs text-ink-2">
              found <RelativeTime at={e.since} />
              {e.seen !== undefined && e.seen > 1 ? `, ${counted(e.seen, "time")}` : ""}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
