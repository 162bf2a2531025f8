import type { ReactNode } from "react";
import { Copied } from "../../components/Copied";
import { Section } from "../../components/Page";
import { Badge } from "../../components/StateBadge";
import { Notice } from "../../components/Status";
import { RelativeTime } from "../../components/Time";
import type { Receipt, StateDuration, Workspace } from "../../generated/api";
import { duration } from "../../services/time";
import { Timeline, width } from "./Timeline";
import { counted } from "../../services/words";

/** WorkspaceView is the looks of the page of a workspace. */
export function WorkspaceView({ workspace: w, usual, renew, logs, runner, inside, ports }: {
  workspace: Workspace;
  usual?: readonly StateDuration[];
  renew?: ReactNode;
  logs?: ReactNode;
  runner?: ReactNode;
  /** Terminal and files, for who may enter it. */
  inside?: ReactNode;
  ports?: ReactNode;
}) {
  return (
    <>
      {w.fault && <Notice tone={w.state === "quarantined" ? "warning" : "bad"}>{w.fault}</Notice>}
      {w.job && <Job workspace={w} job={w.job} />}
      <div className="grid gap-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)] lg:items-start">
        <div className="flex min-w-0 flex-col gap-6">
          {inside}
          <Timeline history={w.history ?? []} usual={usual} />
          {w.evidence && (
            <Section title="The end of its output when it failed">
              <pre tabIndex={0} className="max-h-96 overflow-auto rounded-lg bg-sunken p-3 font-mono text-xs whitespace-pre-wrap">
                {w.evidence}
              </pre>
            </Section>
          )}
          {logs}
        </div>
        <div className="flex min-w-0 flex-col gap-6">
          {w.state === "claimed" && <Claim workspace={w} renew={renew} />}
          {ports}
          {runner}
          <Facts workspace={w} />
          {(!!w.resources?.length || w.drift) && <Resources addresses={w.resources ?? []} drift={w.drift} />}
          {w.agent && <Agent agent={w.agent} />}
        </div>
      </div>
    </>
  );
}

function Job({ workspace: w, job }: { workspace: Workspace; job: NonNullable<Workspace["job"]> }) {
  return (
    <Notice tone={job.failures > 0 ? "warning" : "plain"}>
      {job.state === "running" ? `A ${job.kind} is under way` : `A ${job.kind} is to begin`}
      {job.leased_by && ` on ${job.leased_by}`}
      {job.state !== "running" && (
        <>
          {" "}
          <RelativeTime at={job.due_at} />
        </>
      )}
      {job.attempt > 1 && `, attempt ${job.attempt}`}
      {job.failures > 0 && `; it failed ${job.failures === 1 ? "once" : `${job.failures} times`}`}.
      {job.last_error && job.last_error !== w.fault && (
        <span className="block text-sm break-words text-ink-2">{job.last_error}</span>
      )}
    </Notice>
  );
}

/** Open says to whom else the workspace is open, which its claim has decided. */
function Open({ workspace: w }: { workspace: Workspace }) {
  const ports = w.public_ports ?? [];
  return (
    <>
      {!!w.enter?.length && <p>Besides its user, every {w.enter.join(" and ")} may enter it.</p>}
      {ports.length > 0 && (
        <p>
          Anybody may reach {ports.length === 1 ? "port" : "ports"} {ports.join(", ")} in a browser.
        </p>
      )}
    </>
  );
}

/** Claim is what its owner needs to get in, until when, and how long it took to get it. */
function Claim({ workspace: w, renew }: { workspace: Workspace; renew?: ReactNode }) {
  const environment = Object.entries(w.environment);
  return (
    <Section title="Claim" beside={w.claimed_at && <RelativeTime at={w.claimed_at} />}>
      <div className="flex flex-col gap-4 text-sm">
        <div className="flex flex-wrap items-center justify-between gap-3">
          <p>
            {w.lease_until ? (
              <>
                Its lease ends <RelativeTime at={w.lease_until} />.
              </>
            ) : (
              "It has no lease: it lasts until it is released."
            )}
          </p>
          {renew}
        </div>
        <Open workspace={w} />
        {w.receipt && <Stages receipt={w.receipt} />}
        <Copied label="Enter it" text={`prewarm workspace exec ${w.name} -- sh`} />
        <Copied label="Give it back" text={`prewarm workspace release ${w.name}`} />
        {w.addresses.map((a) => (
          <Copied key={a.address} label={`Address (${a.type})`} text={a.address} />
        ))}
        {environment.length > 0 && (
          <details>
            <summary>Environment, {environment.length === 1 ? "1 variable" : `${environment.length} variables`}</summary>
            <dl className="mt-2 flex flex-col gap-1.5 font-mono text-xs">
              {environment.map(([name, value]) => (
                <div key={name} className="break-all">
                  <dt className="inline text-ink-2">{name}=</dt>
                  <dd className="inline">{value}</dd>
                </div>
              ))}
            </dl>
          </details>
        )}
      </div>
    </Section>
  );
}

/** stagesOf a claim that something is known of, in their order, in milliseconds. */
export function stagesOf(r: Receipt): { name: string; ms: number }[] {
  return [
    { name: "in line", ms: r.queue_ms },
    { name: "chosen", ms: r.statement_ms },
    { name: "waited for one", ms: r.wait_ms },
    { name: "agent notified", ms: r.told_ms },
    { name: "on_claim", ms: r.hook_ms },
  ].flatMap(({ name, ms }) => (ms === undefined ? [] : [{ name, ms }]));
}

function Stages({ receipt }: { receipt: Receipt }) {
  const stages = stagesOf(receipt);
  const longest = Math.max(0, ...stages.map((s) => s.ms));
  return (
    <dl className="grid grid-cols-[auto_minmax(0,1fr)_auto] items-center gap-x-3 gap-y-1" aria-label="How long the claim took">
      {stages.map((s) => (
        <div key={s.name} className="contents">
          <dt className="text-ink-2">{s.name}</dt>
          <dd className="h-2 rounded-full bg-sunken" aria-hidden="true">
            <span className="block h-full rounded-full bg-claimed" style={{ width: `${width(s.ms, longest)}%` }} />
          </dd>
          <dd className="text-right tabular-nums">{duration(s.ms)}</dd>
        </div>
      ))}
    </dl>
  );
}

function Facts({ workspace: w }: { workspace: Workspace }) {
  const facts: [string, ReactNode][] = [
    ["Provider", w.provider],
    ["System", [w.os_name, w.os_version].filter(Boolean).join(" ")],
    ["Id at the provider", w.provider_id && <code className="font-mono text-xs break-all">{w.provider_id}</code>],
    ["Site", w.site && <code className="font-mono text-xs break-all">{w.site}</code>],
    ["Owner", w.owner],
    ["Applied for its owner", w.handover === "done" ? "yes" : w.handover && `no: ${w.handover}`],
    ["Version", w.version],
    ["Incarnation", w.incarnation > 1 ? w.incarnation : undefined],
    ["Created", <RelativeTime key="at" at={w.created_at} />],
    ["Ready", w.ready_at && <RelativeTime at={w.ready_at} />],
    ["Expires", w.expires_at && w.state !== "claimed" && <RelativeTime at={w.expires_at} />],
    ...Object.entries(w.parameters).map(([name, value]): [string, ReactNode] => [name, value]),
  ];
  return (
    <Section title="Facts">
      <dl className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)] gap-x-6 gap-y-1.5 text-sm">
        {facts
          .filter(([, value]) => value !== undefined && value !== "" && value !== false)
          .map(([name, value]) => (
            <div key={name} className="contents">
              <dt className="text-ink-2">{name}</dt>
              <dd className="text-right break-words">{value}</dd>
            </div>
          ))}
      </dl>
    </Section>
  );
}

/** Resources are what the provider made the workspace of. */
function Resources({ addresses, drift }: { addresses: readonly string[]; drift: Workspace["drift"] }) {
  const changed = drift?.resources ?? [];
  return (
    <Section title="Made of">
      <ul className="flex flex-col gap-1 text-sm">
        {[...new Set([...changed, ...addresses])].map((address) => (
          <li key={address} className="flex flex-wrap items-baseline gap-x-2">
            <code className="font-mono text-xs break-all">{address}</code>
            {changed.includes(address) && <Badge icon="alert" colour="text-draining" text="drifted" />}
          </li>
        ))}
      </ul>
      {drift?.looked_at && (
        <p className="mt-2 text-sm text-ink-2">
          {changed.length > 0 ? "Not as its state says" : "No drift"}, looked at <RelativeTime at={drift.looked_at} />.
        </p>
      )}
      {drift?.error && <p className="mt-2 text-sm break-words text-ink-2">The last look for drift failed: {drift.error}</p>}
    </Section>
  );
}

function Agent({ agent }: { agent: NonNullable<Workspace["agent"]> }) {
  return (
    <Section
      title="Agent"
      beside={
        <Badge
          icon={agent.silent ? "alert" : "check"}
          colour={agent.silent ? "text-failed" : "text-ready"}
          text={agent.silent ? "silent" : agent.status}
        />
      }
    >
      <div className="flex flex-col gap-1.5 text-sm">
        {agent.message && <p className="break-words">{agent.message}</p>}
        {agent.heartbeat_at && (
          <p className="text-ink-2">
            last heard of <RelativeTime at={agent.heartbeat_at} />
          </p>
        )}
        {agent.recoveries > 0 && <p className="text-ink-2">recovered {counted(agent.recoveries, "time")}</p>}
      </div>
    </Section>
  );
}
