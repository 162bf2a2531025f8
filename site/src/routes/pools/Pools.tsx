import { useNavigate, useSearch } from "@tanstack/react-router";
import { Page } from "../../components/Page";
import { ErrorState, Loading } from "../../components/Status";
import { incomplete, usePools } from "../../services/pools";
import { useMay } from "../../services/session";
import { PauseAny, Pauses } from "./Pauses";
import { PoolsView } from "./PoolsView";

/** Pools is the page to leave open: are my pools warm, and if not why. The filter is in the URL. */
export function Pools() {
  const pools = usePools();
  const may = useMay();
  const search = useSearch({ from: "/inside/" });
  const navigate = useNavigate({ from: "/" });
  return (
    <Page title="Pools" actions={pools.data && pools.data.length > 0 && <PauseAny pools={pools.data} />}>
      <Pauses />
      {pools.error && <ErrorState error={pools.error} retry={() => void pools.refetch()} />}
      {pools.isPending && <Loading label="Loading pools" lines={8} />}
      {pools.data && (
        <PoolsView
          pools={pools.data}
          filter={search}
          bulk={may("nudge-preset")}
          onFilter={(filter) => void navigate({ search: filter, replace: true })}
        />
      )}
      {pools.data && incomplete(pools.data) && <Loading label="Loading the other pools" lines={2} />}
    </Page>
  );
}
