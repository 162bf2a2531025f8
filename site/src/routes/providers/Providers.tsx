import { Page } from "../../components/Page";
import { EmptyState, ErrorState, Loading } from "../../components/Status";
import { useRead } from "../../services/query";
import { ProviderCard } from "./ProviderCard";

/** Providers are where workspaces live. */
export function Providers() {
  const list = useRead("list-providers");
  return (
    <Page title="Providers" lead="Where workspaces live, as this replica reaches them.">
      {list.error && <ErrorState error={list.error} retry={() => void list.refetch()} />}
      {list.isPending && <Loading lines={3} />}
      {list.data?.length === 0 && <EmptyState icon="stack" title="There is no provider yet" />}
      {list.data && list.data.length > 0 && (
        <ul className="grid gap-4 xl:grid-cols-2" aria-label="Providers">
          {list.data.map((p) => (
            <ProviderCard key={p.name} provider={p} />
          ))}
        </ul>
      )}
    </Page>
  );
}
