import { Link } from "@tanstack/react-router";
import { Section } from "../../components/Page";
import { Badge } from "../../components/StateBadge";
import { ErrorState, Loading } from "../../components/Status";
import { RelativeTime } from "../../components/Time";
import type { Machine } from "../../generated/api";
import { useRead } from "../../services/query";
import { counted } from "../../services/words";

const looks = {
  unused: { icon: "check", colour: "text-ready", text: "unused" },
  used: { icon: "person", colour: "text-claimed", text: "used" },
  possibly_used: { icon: "alert", colour: "text-draining", text: "possibly used" },
} as const;

const most = 300;

/** Machines are those of a provider whose machines exist beforehand. */
export function Machines({ provider }: { provider: string }) {
  const list = useRead("list-machines", { params: { provider } });
  return (
    <Section title="Machines" beside={list.data && count(list.data)}>
      {list.error && <ErrorState error={list.error} retry={() => void list.refetch()} />}
      {list.isPending && <Loading lines={3} />}
      {list.data?.length === 0 && <p className="text-ink-2">None was listed yet.</p>}
      {list.data && list.data.length > 0 && (
        <ul className="-my-1 divide-y divide-line" aria-label="Machines">
          {list.data.slice(0, most).map((m) => (
            <Row key={m.machine} machine={m} />
          ))}
        </ul>
      )}
      {list.data && list.data.length > most && (
        <p className="mt-3 text-sm text-ink-2">
          {most} of {list.data.length}. All of them: <code>prewarm provider machines {provider}</code>
        </p>
      )}
    </Section>
  );
}

/** count says how many there are of each state. */
export function count(machines: readonly Machine[]): string {
  return (["unused", "used", "possibly_used"] as const)
    .map((state) => [machines.filter((m) => m.state === state).length, looks[state].text] as const)
    .filter(([n]) => n > 0)
    .map(([n, text]) => `${n} ${text}`)
    .join(", ");
}

function Row({ machine: m }: { machine: Machine }) {
  return (
    <li className="grid gap-x-5 gap-y-1 py-2.5 sm:grid-cols-[9rem_minmax(0,1fr)]">
      <div>
        <Badge {...looks[m.state]} />
      </div>
      <div className="min-w-0 text-sm">
        <p className="flex flex-wrap gap-x-3">
          <span className="font-medium break-all">{m.machine}</span>
          {m.address && m.address !== m.machine && <code className="font-mono text-xs text-ink-2">{m.address}</code>}
          {m.workspace && (
            <Link to="/workspaces/$workspace" params={{ workspace: m.workspace }} className="link font-mono text-xs break-all">
              {m.workspace}
            </Link>
          )}
        </p>
        {m.error && <p className="break-words text-failed">{m.error}</p>}
        {m.holder && m.holder !== m.workspace && <p className="break-words text-ink-2">says that it is used by {m.holder}</p>}
        <p className="text-xs text-ink-2">
          {m.seen_at ? (
            <>
              answered <RelativeTime at={m.seen_at} />
            </>
          ) : (
            "never answered"
          )}
          {m.failures !== undefined && m.failures > 0 && `; ${counted(m.failures, "failure")} in a row`}
          {m.retry_at && (
            <>
              ; tried again <RelativeTime at={m.retry_at} />
            </>
          )}
        </p>
      </div>
    </li>
  );
}
