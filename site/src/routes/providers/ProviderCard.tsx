import { Link } from "@tanstack/react-router";
import { Bar } from "../../components/Bar";
import { Icon } from "../../components/Icon";
import { Badge } from "../../components/StateBadge";
import { RelativeTime } from "../../components/Time";
import type { Breaker, LastInventory, Provider } from "../../generated/api";
import { counted } from "../../services/words";

/** Standing is how a provider is, as an icon and a word: the worst of it. */
export function Standing({ provider: p }: { provider: Provider }) {
  if (p.deleted_at) return <Badge icon="trash" colour="text-draining" text="deleted" />;
  if (p.error) return <Badge icon="alert" colour="text-failed" text="does not work here" />;
  if (p.breaker) return <Badge icon="pause" colour="text-failed" text="breaker open" />;
  if (!p.confirmed) return <Badge icon="search" colour="text-draining" text="to be confirmed" />;
  return <Badge icon="check" colour="text-ready" text="works" />;
}

/** lastOf is the inventory that ended last, of all sites. */
export function lastOf(p: Pick<Provider, "sites">): LastInventory | undefined {
  return p.sites
    .flatMap((s) => (s.last ? [s.last] : []))
    .sort((a, b) => b.ended_at.localeCompare(a.ended_at))[0];
}

/** ProviderCard is a provider in one look. */
export function ProviderCard({ provider: p }: { provider: Provider }) {
  const last = lastOf(p);
  return (
    <li className="card flex min-w-0 flex-col gap-4 p-5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h2 className="text-base font-semibold">
          <Link to="/providers/$provider" params={{ provider: p.name }} className="link">
            {p.name}
          </Link>
        </h2>
        <span className="grow text-sm text-ink-2">{p.kind}</span>
        <Standing provider={p} />
      </div>
      {p.deleted_at && (
        <p className="text-sm break-words">
          <Deleted provider={p} />
        </p>
      )}
      {p.error && <p className="text-sm break-words text-failed">{p.error}</p>}
      {p.breaker && (
        <p className="text-sm break-words">
          {p.breaker.reason}
          <span className="block text-ink-2">
            since <RelativeTime at={p.breaker.since} />; {p.breaker.clean} of {p.breaker.close_at} clean inventories
          </span>
        </p>
      )}
      <Use provider={p} />
      <p className="flex items-center gap-1.5 text-sm text-ink-2">
        <Icon name={last && last.outcome === "incomplete" ? "alert" : "search"} />
        <span className="min-w-0">
          <LastLooked last={last} />
        </span>
      </p>
    </li>
  );
}

/** Deleted says since when a provider is deleted, and until when it is listed. */
export function Deleted({ provider: p }: { provider: Provider }) {
  const left = [p.claimed > 0 && `${p.claimed} claimed`, p.unclaimed > 0 && `${p.unclaimed} unclaimed`].filter(Boolean);
  return (
    <>
      Deleted {p.deleted_at && <RelativeTime at={p.deleted_at} />}: nothing is created there any more.{" "}
      {left.length > 0 ? `Left there: ${left.join(", ")}. ` : "No workspace is left there. "}
      {p.claimed > 0 && "What is claimed stays until it is released. "}
      It is listed until an inventory finds nothing.
    </>
  );
}

/** Use is how full a provider is, and how many creates are under way. */
export function Use({ provider: p }: { provider: Provider }) {
  const maximum = p.limits.maximum;
  const all = p.claimed + p.unclaimed;
  return (
    <div className="grid gap-x-6 gap-y-4 sm:grid-cols-2">
      <div className="min-w-0">
        <p className="mb-1.5 text-sm">
          <b className="tabular-nums">{all}</b>
          {maximum > 0 ? ` of ${maximum} workspaces` : all === 1 ? " workspace" : " workspaces"}
          <span className="text-ink-2">{maximum > 0 ? "" : ", no maximum"}</span>
        </p>
        <Bar
          parts={[
            { name: "unclaimed", value: p.unclaimed, colour: "text-ready" },
            { name: "claimed", value: p.claimed, colour: "text-claimed", hatched: true },
          ]}
          {...(maximum > 0 && { whole: maximum })}
          label={`${p.unclaimed} unclaimed, ${p.claimed} claimed${maximum > 0 ? `, of ${maximum}` : ""}`}
        />
        <p className="mt-1 text-xs text-ink-2">
          {p.unclaimed} unclaimed, {p.claimed} claimed
        </p>
      </div>
      <div className="min-w-0">
        <p className="mb-1.5 text-sm">
          <b className="tabular-nums">{p.creating}</b> of {p.limits.creates_in_flight} creates in flight
        </p>
        <Bar
          parts={[{ name: "creating", value: p.creating, colour: "text-starting" }]}
          whole={p.limits.creates_in_flight}
          label={`${p.creating} of ${p.limits.creates_in_flight} creates in flight`}
        />
        <p className="mt-1 text-xs text-ink-2">{p.limits.create_every ? `one each ${p.limits.create_every}` : "no rate limit"}</p>
      </div>
    </div>
  );
}

/** LastLooked is how the last inventory ended, in a sentence. */
export function LastLooked({ last }: { last: LastInventory | undefined }) {
  if (!last) return "No inventory was made yet.";
  if (last.outcome === "incomplete") {
    return (
      <>
        The inventory <RelativeTime at={last.ended_at} /> was incomplete: {last.error}
      </>
    );
  }
  return (
    <>
      Inventory <RelativeTime at={last.ended_at} />: {last.resources === 1 ? "1 resource" : `${last.resources} resources`},{" "}
      {last.discrepancies === 0
        ? "all as they should be"
        : counted(last.discrepancies, "discrepancy", "discrepancies")}
    </>
  );
}

/** BreakerSteps is how many clean inventories there were of those that close it. */
export function BreakerSteps({ breaker: b }: { breaker: Breaker }) {
  const label = `${b.clean} of ${b.close_at} clean inventories in a row`;
  return (
    <span className="inline-flex items-center gap-2">
      <span role="img" aria-label={label} className="flex gap-1">
        {Array.from({ length: Math.min(b.close_at, 20) }, (_, i) => (
          <span
            key={i}
            className={`size-3 rounded-full border-2 ${i < b.clean ? "border-ready bg-ready" : "border-line-strong"}`}
          />
        ))}
      </span>
      <span className="text-sm text-ink-2" aria-hidden="true">
        {label}
      </span>
    </span>
  );
}
