import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { Button } from "../../components/Button";
import { Copied } from "../../components/Copied";
import { Icon } from "../../components/Icon";
import { Section } from "../../components/Page";
import { EmptyState } from "../../components/Status";
import { RelativeTime, Since } from "../../components/Time";
import type { ClaimRecord, Pool } from "../../generated/api";
import { useRead } from "../../services/query";
import { clock, duration, useNow } from "../../services/time";
import type { Wait } from "../../services/waits";
import { Acts } from "../claims/ClaimsView";
import { rowsOf, saysGroup } from "../claims/groups";
import { leaseLeft } from "../claims/receipt";

/** So many pools are listed at once; the filter finds the others. */
const most = 30;

interface Props {
  held: readonly ClaimRecord[];
  waiting: readonly ClaimRecord[];
  waits: readonly Wait[];
  pools: readonly Pool[];
  onClaim?: ((pool: Pool, now: boolean) => Promise<unknown>) | undefined;
  onRelease: (workspace: string) => Promise<unknown>;
  onRenew: (workspace: string, lease: string) => Promise<unknown>;
}

/** MineView is the looks of a member's own page. */
export function MineView({ held, waiting, waits, pools, onClaim, onRelease, onRenew }: Props) {
  const [q, setQ] = useState("");
  const words = q.toLowerCase().split(/\s+/);
  const found = pools.filter((p) => words.every((w) => `${p.template}/${p.preset}`.toLowerCase().includes(w)));
  // Waits of other tabs and of the command line, which are cancelled there.
  const others = rowsOf(waiting.filter((c) => !waits.some((w) => w.template === c.template && w.preset === c.preset)));
  return (
    <>
      {held.length === 0 ? (
        <EmptyState icon="person" title="You have no workspace">
          Claim one below. A ready one is yours at once.
        </EmptyState>
      ) : (
        <ul className="grid gap-4 xl:grid-cols-2 3xl:grid-cols-3" aria-label="Workspaces that you have">
          {held.map((c) => (
            <Held key={c.claim_id} claim={c} onRelease={onRelease} onRenew={onRenew} />
          ))}
        </ul>
      )}
      {(waits.length > 0 || others.length > 0) && (
        <Section title="Waiting">
          <ul className="-my-1 divide-y divide-line" aria-label="Claims that wait">
            {waits.map((w) => {
              const at = waiting.find((c) => c.template === w.template && c.preset === w.preset);
              return (
                <Waiting key={w.id} pool={`${w.template}/${w.preset}`} since={new Date(w.since).toISOString()} place={at?.place}>
                  <Button onClick={w.cancel}>Cancel</Button>
                </Waiting>
              );
            })}
            {others.map(({ claim: c, kind }) => (
              <Waiting
                key={c.claim_id}
                pool={`${c.template}/${c.preset}`}
                since={c.created_at}
                place={kind === "group" ? undefined : c.place}
                group={saysGroup(c)}
              >
                <span className="text-sm text-ink-2">Cancel it where it was started.</span>
              </Waiting>
            ))}
          </ul>
        </Section>
      )}
      {onClaim && (
        <Section title="What you can claim">
          {pools.length === 0 ? (
            <p className="text-ink-2">There is no pool yet. Ask a template admin for one.</p>
          ) : (
            <>
              {pools.length > 5 && (
                <input
                  type="search"
                  className="field mb-2 sm:max-w-xs"
                  aria-label="Filter pools by name"
                  placeholder="Filter by name"
                  value={q}
                  onChange={(e) => setQ(e.target.value)}
                />
              )}
              <ul className="-mb-1 divide-y divide-line 3xl:grid 3xl:grid-cols-2 3xl:gap-x-12" aria-label="Pools that you can claim from">
                {found.slice(0, most).map((p) => (
                  <Choice key={p.id} pool={p} onClaim={onClaim} busy={waits.some((w) => w.template === p.template && w.preset === p.preset)} />
                ))}
              </ul>
              {found.length === 0 && <p className="text-ink-2">No pool matches.</p>}
              {found.length > most && <p className="mt-3 text-sm text-ink-2">{found.length - most} more: filter by name.</p>}
            </>
          )}
        </Section>
      )}
    </>
  );
}

/** Held is a workspace that one has: how to enter it, how long it lasts, and how to give it back. */
function Held({ claim: c, onRelease, onRenew }: { claim: ClaimRecord } & Pick<Props, "onRelease" | "onRenew">) {
  return (
    <li className="card flex min-w-0 flex-col gap-3 p-5">
      <div className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
        <h2 className="min-w-0 grow font-semibold break-all">
          {c.workspace ? (
            <Link to="/workspaces/$workspace" params={{ workspace: c.workspace }} className="link">
              {c.workspace}
            </Link>
          ) : (
            "No longer on record"
          )}
        </h2>
        <span className="text-sm break-all text-ink-2">
          {c.template}/{c.preset}
        </span>
      </div>
      <p className="text-sm">
        <TimeLeft claim={c} />{" "}
        <span className="text-ink-2">
          Claimed <RelativeTime at={c.bound_at ?? c.created_at} />.
        </span>
      </p>
      {c.workspace && <Copied label="Enter it" text={`prewarm exec ${c.workspace} -- sh`} />}
      <div className="mt-auto">
        <Acts claim={c} onRelease={onRelease} onRenew={onRenew} />
      </div>
    </li>
  );
}

/** TimeLeft says how long a lease lasts and until when, by the clock of the browser. */
function TimeLeft({ claim: c }: { claim: ClaimRecord }) {
  const now = useNow();
  const left = leaseLeft(c, now);
  if (!left || !c.lease_until) return <>Yours until you release it.</>;
  if (left.ms <= 0) return <>Its lease ends now.</>;
  return (
    <b className={`font-medium ${left.share < 0.1 ? "text-failed" : ""}`}>
      {duration(left.ms)} left (until {clock(c.lease_until, now)}).
    </b>
  );
}

function Waiting({ pool, since, place, group, children }: {
  pool: string;
  since: string;
  place?: number | undefined;
  /** Of a request with a count: how it stands. */
  group?: string;
  children: ReactNode;
}) {
  return (
    <li className="flex flex-wrap items-center gap-3 py-2.5">
      <span className="min-w-0 grow">
        <Icon name="clock" className="mr-2 inline size-4 text-draining" />
        <b className="font-medium break-all">{pool}</b>
        {", for "}
        <Since at={since} />
        {group && `, ${group}`}
        {place !== undefined && (place === 1 ? ", next in line" : `, place ${place} in line`)}
      </span>
      {children}
    </li>
  );
}

/** Choice is a pool with one button, and how long a claim is expected to wait. */
function Choice({ pool: p, busy, onClaim }: { pool: Pool; busy: boolean; onClaim: NonNullable<Props["onClaim"]> }) {
  const claimable = p.slots.ready + p.slots.outdated;
  const hopeless = claimable === 0 && ((p.failures ?? 0) > 0 || p.error !== undefined || (p.paused !== undefined && p.slots.starting === 0));
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-2 py-2.5">
      <span className="min-w-0 grow basis-56">
        <Link to="/presets/$template/$preset" params={{ template: p.template, preset: p.preset }} className="link font-medium break-all">
          {p.template}/{p.preset}
        </Link>
        <span className="flex items-center gap-1.5 text-sm text-ink-2">
          {claimable > 0 ? (
            <>
              <Icon name="check" className="size-4 text-ready" /> {claimable} ready: no wait
            </>
          ) : hopeless ? (
            <>
              <Icon name="alert" className="size-4 text-failed" /> {p.paused ? "None ready, and the pool is paused" : "None ready: creates fail"}
            </>
          ) : (
            <>
              <Icon name="building" className="size-4 text-starting" /> <Expected pool={p} />
            </>
          )}
        </span>
      </span>
      <Button
        look={claimable > 0 ? "primary" : "plain"}
        icon="person"
        busy={busy}
        aria-label={`Claim ${p.template}/${p.preset}`}
        onClick={() => void onClaim(p, hopeless)}
      >
        Claim
      </Button>
    </li>
  );
}

/** Expected is when a pool has a workspace ready again, as far as its builds tell. */
function Expected({ pool: p }: { pool: Pool }) {
  const now = useNow();
  const explained = useRead("explain-preset", { params: { template: p.template, preset: p.preset } }).data;
  const line = p.waiting > 0 ? `, ${p.waiting === 1 ? "1 claim waits" : `${p.waiting} claims wait`}` : "";
  const at = explained?.warm_at ? Date.parse(explained.warm_at) : 0;
  if (at > now) return <span>{`none ready; the pool is warm in about ${duration(at - now)}${line}`}</span>;
  if (explained?.provision_ms) return <span>{`none ready; a build takes about ${duration(explained.provision_ms)}${line}`}</span>;
  return <span>{`none ready${p.slots.starting > 0 ? `, ${p.slots.starting} being built` : ""}${line}`}</span>;
}
