import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Dialog";
import { Facts } from "../../components/Facts";
import { Page, Section } from "../../components/Page";
import { ErrorState, Loading, Notice } from "../../components/Status";
import { RelativeTime } from "../../components/Time";
import type { Provider } from "../../generated/api";
import { read, useAct, useRead } from "../../services/query";
import { useMay } from "../../services/session";
import { Check } from "./Check";
import { InventoryView } from "./InventoryView";
import { Machines } from "./Machines";
import { BreakerSteps, Deleted, LastLooked, lastOf, Standing, Use } from "./ProviderCard";
import { DeleteProvider } from "./DeleteProvider";
import { counted } from "../../services/words";

/** ProviderPage is one provider: whether it is trusted, how full it is, and what it has. */
export function ProviderPage() {
  const { provider } = useParams({ from: "/inside/providers/$provider" });
  const may = useMay();
  const list = useRead("list-providers");
  const p = list.data?.find((x) => x.name === provider);
  return (
    <Page
      title={provider}
      above={
        <Link to="/providers" activeOptions={{ exact: true }} className="link">
          Providers
        </Link>
      }
      lead={
        p && (
          <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <Standing provider={p} />
            <span>{p.kind}</span>
            {p.can.length > 0 && <span>can {p.can.join(", ")}</span>}
          </span>
        )
      }
      actions={p && <Actions provider={p} />}
    >
      {list.error && <ErrorState error={list.error} retry={() => void list.refetch()} />}
      {list.isPending && <Loading lines={4} />}
      {list.data && !p && (
        <ErrorState
          error={new Error(`There is no provider ${provider}; there are ${list.data.map((x) => x.name).join(", ")}.`)}
        />
      )}
      {p && (
        <>
          <Standings provider={p} />
          <div className="grid gap-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)] lg:items-start">
            <div className="flex min-w-0 flex-col gap-6">
              <Section title="Use">
                <Use provider={p} />
              </Section>
              <Looked provider={p} />
              {p.reserves && <Machines provider={p.name} />}
            </div>
            <div className="flex min-w-0 flex-col gap-6">
              <Limits provider={p} />
              {may("check-provider") && !p.error && !p.deleted_at && <Check provider={p.name} />}
            </div>
          </div>
        </>
      )}
    </Page>
  );
}

/** Standings is what is wrong with a provider, and what follows from it. */
function Standings({ provider: p }: { provider: Provider }) {
  const open = p.sites.filter((s) => s.breaker);
  return (
    <>
      {p.deleted_at && (
        <Notice tone="warning" icon="trash">
          <Deleted provider={p} />
        </Notice>
      )}
      {p.error && <Notice tone="bad">It does not work on this replica: {p.error}</Notice>}
      {open.map((s) => (
        <Notice key={s.site ?? ""} tone="bad" icon="pause">
          <p className="font-semibold">
            The breaker{s.site ? ` of site ${s.site}` : ""} is open: nothing is created or deleted there. Claims go on.
          </p>
          {s.breaker && (
            <>
              <p className="mt-0.5 break-words">{s.breaker.reason}</p>
              <p className="mt-2 flex flex-wrap items-center gap-x-4 gap-y-1">
                <BreakerSteps breaker={s.breaker} />
                <span className="text-sm text-ink-2">
                  open since <RelativeTime at={s.breaker.since} />
                </span>
              </p>
            </>
          )}
        </Notice>
      ))}
      {!p.confirmed && !p.deleted_at && (
        <Notice tone="warning" icon="search">
          It was configured lately: what inventories find there that belongs to nobody is only shown, not deleted. Look at the
          verdicts below, and confirm that it is the right place.
        </Notice>
      )}
    </>
  );
}

function Actions({ provider: p }: { provider: Provider }) {
  const may = useMay();
  const resume = useAct("resume-provider");
  const confirm = useAct("confirm-provider");
  const params = { provider: p.name };
  return (
    <>
      {p.breaker && may("resume-provider") && (
        <Confirm
          act="Resume"
          look="primary"
          icon="play"
          title={`Close the breaker of ${p.name}?`}
          effect={`It is open because: ${p.breaker.reason}. Creates and deletes go on there at once, on what the provider says. If that is still wrong, the next inventory opens it again.`}
          done={`Creates and deletes go on at ${p.name}.`}
          run={() => resume.mutateAsync({ params })}
        />
      )}
      {may("delete-provider") && !p.deleted_at && <DeleteProvider provider={p} />}
      {!p.confirmed && may("confirm-provider") && (
        <Confirm
          act="Confirm"
          look="primary"
          icon="check"
          title={`Let orphans be deleted at ${p.name}?`}
          effect="What is tagged as ours there and belongs to no workspace is deleted from then on, once two inventories agree on it. What is not tagged as ours is never touched. Nothing takes this back."
          done={`Orphans are deleted at ${p.name}.`}
          run={() => confirm.mutateAsync({ params })}
        />
      )}
    </>
  );
}

function Limits({ provider: p }: { provider: Provider }) {
  const l = p.limits;
  return (
    <Section title="Limits">
      <Facts
        facts={[
          ["Maximum of live workspaces", l.maximum || "none"],
          ["Creates in flight", l.creates_in_flight],
          ["Creates of one pass", l.chunk],
          ["Rate of creates", l.create_every ? `one each ${l.create_every}, ${l.create_burst} ahead` : "none"],
          ["Inventory", `each ${l.inventory_every}`],
          ["Breaker opens at", `${counted(l.breaker_count, "discrepancy", "discrepancies")}, if ${l.breaker_percent} % of all`],
          ["or at failing calls", `${l.breaker_errors} %`],
        ]}
      />
    </Section>
  );
}

/** Looked compares both sides now: once when the page is opened, and then when somebody asks for it, for it asks the provider. */
function Looked({ provider: p }: { provider: Provider }) {
  const inventory = useQuery({
    ...read("list-inventories", { params: { provider: p.name, discrepancies: true, limit: 200 } }),
    refetchInterval: false,
    refetchOnWindowFocus: false,
    staleTime: 60_000,
  });
  return (
    <Section
      title="Inventory"
      beside={
        <Button icon="refresh" busy={inventory.isFetching} onClick={() => void inventory.refetch()}>
          Run inventory
        </Button>
      }
    >
      <p className="mb-4 text-sm text-ink-2">
        <LastLooked last={lastOf(p)} />
      </p>
      {inventory.error && <ErrorState error={inventory.error} retry={() => void inventory.refetch()} />}
      {inventory.isPending && <Loading lines={3} />}
      {inventory.data?.map((i) => (
        <InventoryView key={i.site ?? ""} inventory={i} />
      ))}
    </Section>
  );
}
