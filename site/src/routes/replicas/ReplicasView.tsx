import { Bar } from "../../components/Bar";
import { Icon } from "../../components/Icon";
import { Badge } from "../../components/StateBadge";
import { Notice } from "../../components/Status";
import { Table } from "../../components/Table";
import { RelativeTime, Since } from "../../components/Time";
import type { LastPass, Replica } from "../../generated/api";
import { duration, useNow } from "../../services/time";

const looks = {
  alive: { icon: "check", colour: "text-ready" },
  stopping: { icon: "drain", colour: "text-draining" },
  stale: { icon: "alert", colour: "text-failed" },
} as const;

/** staleness is how old the last full pass is by now: as it was read, and what has gone by since. In milliseconds. */
export function staleness(pass: Pick<LastPass, "staleness_ms">, readAt: number, now: number): number {
  return pass.staleness_ms + Math.max(0, now - readAt);
}

/** PassView is how the passes stand: without them nothing is refilled. */
export function PassView({ pass, readAt }: { pass: LastPass; readAt: number }) {
  const now = useNow();
  const age = staleness(pass, readAt, now);
  // What was read some time ago says nothing about now: only the server says that it is stale.
  const share = Math.min(1, age / pass.limit_ms);
  return (
    <>
      {pass.stale && (
        <Notice tone="bad">
          <p className="font-semibold">
            {pass.full_began_at
              ? `No full pass has succeeded for ${duration(pass.staleness_ms)}`
              : "No full pass has succeeded yet"}
          </p>
          <p className="text-ink-2">
            Pools are not refilled, and what should go stays; claims go on. Look at the log of each replica for “pass”, and at
            the database: whether it answers, and whether somebody holds a transaction open.
          </p>
        </Notice>
      )}
      <section aria-label="Last pass" className="card grid gap-x-8 gap-y-5 p-5 sm:grid-cols-3">
        <div className="min-w-0">
          <h2 className="text-sm text-ink-2">Last pass by</h2>
          <p className="mt-1 text-xl font-semibold break-words">{pass.replica || "nobody yet"}</p>
          <p className="text-sm text-ink-2">number {pass.sequence.toLocaleString("en")}</p>
        </div>
        <div>
          <h2 className="text-sm text-ink-2">Began</h2>
          <p className="mt-1 text-xl font-semibold">{pass.began_at ? <RelativeTime at={pass.began_at} /> : "never"}</p>
          <p className="text-sm text-ink-2">over all templates, or those that were nudged</p>
        </div>
        <div>
          <h2 className="text-sm text-ink-2">Over all templates</h2>
          <p className="mt-1 flex items-center gap-2 text-xl font-semibold">
            <Icon name={pass.stale ? "alert" : "check"} className={`size-5 ${pass.stale ? "text-failed" : "text-ready"}`} />
            {pass.full_began_at ? <RelativeTime at={pass.full_began_at} /> : "never"}
          </p>
          <div className="mt-2">
            <Bar
              parts={[{ name: "age", value: share, colour: pass.stale ? "text-failed" : share > 0.6 ? "text-draining" : "text-ready" }]}
              whole={1}
              label={`${duration(age)} old; stale from ${duration(pass.limit_ms)} on`}
              height={6}
            />
          </div>
          <p className="mt-1 text-sm text-ink-2">stale from {duration(pass.limit_ms)} on</p>
        </div>
      </section>
    </>
  );
}

/** working says in words what a replica is at. */
export function working(work: Replica["work"]): string {
  const kinds = Object.entries(work).filter(([, n]) => n > 0);
  return kinds.length === 0 ? "" : kinds.map(([kind, n]) => `${n} ${kind}${n === 1 ? "" : "s"}`).join(", ");
}

export function ReplicasView({ replicas }: { replicas: readonly Replica[] }) {
  const stale = replicas.filter((r) => r.state === "stale");
  return (
    <>
      {stale.length > 0 && (
        <Notice tone="warning">
          {stale.length === 1 ? `${stale[0]?.name} has` : `${stale.length} replicas have`} not been heard of for a while. What
          they were at is taken over by the others as their leases end; after a day without a word they are no longer listed.
        </Notice>
      )}
      <Table
        label="Replicas"
        rows={replicas}
        keyOf={(r) => r.name}
        columns={[
          {
            title: "Replica",
            cell: (r) => (
              <span className="inline-flex flex-wrap items-center justify-end gap-2 md:justify-start">
                <span className="font-medium">{r.name}</span>
                {r.last_pass && <Badge icon="pools" colour="text-accent" text="did the last pass" />}
              </span>
            ),
          },
          { title: "State", cell: (r) => <Badge {...looks[r.state]} text={r.state} /> },
          {
            title: "Is at",
            cell: (r) => <span className="md:whitespace-nowrap">{working(r.work) || <span className="text-ink-2">no job now</span>}</span>,
          },
          { title: "Heard of", cell: (r) => <RelativeTime at={r.heartbeat_at} />, right: true },
          { title: "Up for", cell: (r) => <Since at={r.started_at} />, right: true },
          { title: "Version", cell: (r) => <span className="font-mono text-xs">{r.version}</span> },
          { title: "Address", cell: (r) => <span className="font-mono text-xs whitespace-nowrap">{r.address}</span> },
          {
            title: "Sites",
            cell: (r) => (
              <span className="font-mono text-xs" title={r.sites.join(", ")}>
                {r.sites.map((s) => (s.length > 14 ? `${s.slice(0, 12)}…` : s)).join(", ")}
              </span>
            ),
          },
        ]}
      />
    </>
  );
}
