import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Page } from "../../components/Page";
import { ErrorState, Loading } from "../../components/Status";
import { toast } from "../../components/Toasts";
import type { Pool } from "../../generated/api";
import { usePools } from "../../services/pools";
import { read, refresh, useAct, useRead } from "../../services/query";
import { useMay } from "../../services/session";
import { claim, useWaits } from "../../services/waits";
import { MineView } from "./MineView";

/** How often the line is read: who joins it changes no workspace, so nothing hints at it. In milliseconds. */
const line = 5_000;

/** Mine is a member's own page: what I have, what I wait for, and what I can claim. */
export function Mine() {
  const may = useMay();
  const client = useQueryClient();
  const user = useRead("whoami").data?.user ?? "";
  const held = useRead("list-claims", { params: { state: "bound", user, limit: 100 } });
  const waiting = useQuery({ ...read("list-claims", { params: { state: "waiting", user, limit: 100 } }), refetchInterval: line });
  const pools = usePools();
  const release = useAct("release-workspace");
  const renew = useAct("renew-workspace");
  const waits = useWaits();
  const take = async (pool: Pool, now: boolean) => {
    try {
      const got = await claim(pool.template, pool.preset, now);
      if (!got) toast("The claim is cancelled.");
      else if (!got.name) toast(`No workspace of ${pool.template}/${pool.preset}: ${got.reason ?? "none is ready"}`, true);
      else toast(`${got.name} is yours.`);
    } catch (e) {
      toast(e instanceof Error ? e.message : String(e), true);
    }
    await refresh(client);
  };
  return (
    <Page title="My workspaces" lead="What you have, and what you can claim.">
      {held.error && <ErrorState error={held.error} retry={() => void held.refetch()} />}
      {pools.error && <ErrorState error={pools.error} retry={() => void pools.refetch()} />}
      {(held.isPending || pools.isPending) && <Loading lines={6} />}
      {held.data && pools.data && (
        <MineView
          held={held.data.claims}
          waiting={waiting.data?.claims ?? []}
          waits={waits}
          pools={pools.data.filter((p) => !p.runners)}
          onClaim={may("create-claim") ? take : undefined}
          onRelease={(workspace) => release.mutateAsync({ params: { workspace } })}
          onRenew={(workspace, lease) => renew.mutateAsync({ params: { workspace }, body: lease ? { lease } : {} })}
        />
      )}
    </Page>
  );
}
