import { useQueries } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Page } from "../../components/Page";
import { useState } from "react";
import { More } from "../../components/More";
import { ErrorState, Loading } from "../../components/Status";
import { usePages } from "../../services/pages";
import { read, useAct } from "../../services/query";
import { useMay } from "../../services/session";
import { ClaimFilters, ClaimsView, NoClaims, Tabs, type ClaimSearch } from "./ClaimsView";

/** How often the line is read: who joins it changes no workspace, so nothing hints at it. In milliseconds. */
const line = 5_000;

/** Claims are who has what, who waits for something, and how it went. */
export function Claims() {
  const search = useSearch({ from: "/inside/claims" });
  const navigate = useNavigate({ from: "/claims" });
  const may = useMay();
  const release = useAct("release-workspace");
  const renew = useAct("renew-workspace");
  const state = search.state ?? "bound";
  const list = usePages("list-claims", { ...search, state, limit: 100 }, state === "waiting" ? { refetchInterval: line } : {});
  const claims = list.data?.pages.flatMap((p) => p.claims);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const toggle = (group: string) =>
    setOpen((old) => {
      const next = new Set(old);
      if (!next.delete(group)) next.add(group);
      return next;
    });
  const groups = [...open].filter((id) => claims?.some((c) => c.group?.id === id));
  const opened = useQueries({ queries: groups.map((group) => read("list-claims", { params: { group } })) });
  const members = new Map(groups.map((id, i) => [id, opened[i]?.data?.claims ?? []]));
  const narrow = (change: Partial<ClaimSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true, resetScroll: false });
  return (
    <Page title="Claims" lead="Who has what, who waits for it, and how long it took.">
      <Tabs search={search} />
      <ClaimFilters search={search} onChange={narrow} />
      {list.error && <ErrorState error={list.error} retry={() => void list.refetch()} />}
      {list.isPending && <Loading lines={6} />}
      {claims?.length === 0 && !list.hasNextPage && <NoClaims search={search} />}
      {claims && claims.length > 0 && (
        <ClaimsView
          state={state}
          claims={claims}
          members={members}
          open={open}
          onToggle={toggle}
          onRelease={may("release-workspace") ? (workspace) => release.mutateAsync({ params: { workspace } }) : undefined}
          onRenew={
            may("renew-workspace")
              ? (workspace, lease) => renew.mutateAsync({ params: { workspace }, body: lease ? { lease } : {} })
              : undefined
          }
        />
      )}
      {claims && (claims.length > 0 || list.hasNextPage) && <More of={list} shown={claims.length} what="claim" />}
    </Page>
  );
}
