import { useNavigate, useSearch } from "@tanstack/react-router";
import { More } from "../../components/More";
import { Page } from "../../components/Page";
import { EmptyState, ErrorState, Loading } from "../../components/Status";
import { usePages } from "../../services/pages";
import { AuditFilters, AuditView, type AuditSearch } from "./AuditView";

/** Audit is who did what, the newest first. */
export function Audit() {
  const search = useSearch({ from: "/inside/audit" });
  const navigate = useNavigate({ from: "/audit" });
  const list = usePages("list-audit", { ...search, limit: 100 });
  const entries = list.data?.pages.flatMap((p) => p.entries);
  const narrow = (change: Partial<AuditSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true, resetScroll: false });
  const narrowed = Object.values(search).some((v) => v !== undefined);
  return (
    <Page title="Audit" lead="Who did what, on what and from where, the newest first.">
      <AuditFilters search={search} onChange={narrow} />
      {list.error && <ErrorState error={list.error} retry={() => void list.refetch()} />}
      {list.isPending && <Loading lines={6} />}
      {entries?.length === 0 && !list.hasNextPage && (
        <EmptyState icon="list" title={narrowed ? "Nothing on record matches" : "Nothing is on record yet"} />
      )}
      {entries && entries.length > 0 && <AuditView entries={entries} onNarrow={narrow} />}
      {entries && (entries.length > 0 || list.hasNextPage) && <More of={list} shown={entries.length} what="entry" plural="entries" />}
    </Page>
  );
}
