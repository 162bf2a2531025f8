import { Link } from "@tanstack/react-router";
import { Icon } from "../../components/Icon";
import { Page } from "../../components/Page";
import { EmptyState, ErrorState, Loading } from "../../components/Status";
import { useRead } from "../../services/query";
import { useMay } from "../../services/session";
import { usePools } from "../../services/pools";
import { TemplatesView } from "./TemplatesView";

/** Templates lists the kinds of workspaces there are. */
export function Templates() {
  const may = useMay();
  const list = useRead("list-templates");
  const pools = usePools();
  return (
    <Page
      title="Templates"
      lead="Kinds of workspaces, each on one provider, with the presets that are made of them."
      actions={may("apply") && <ApplyLink />}
    >
      {list.error && <ErrorState error={list.error} retry={() => void list.refetch()} />}
      {list.isPending && <Loading lines={4} />}
      {list.data?.length === 0 && (
        <EmptyState icon="template" title="There is no template yet">
          <Link to="/welcome" className="link">
            Create a first pool
          </Link>
          {may("apply") ? ", or apply a file of your own." : ", or ask a template admin for one."}
        </EmptyState>
      )}
      {list.data && list.data.length > 0 && <TemplatesView templates={list.data} pools={pools.data ?? []} />}
    </Page>
  );
}

/** ApplyLink leads to where a file is applied. It looks like the button that it is to people. */
export function ApplyLink() {
  return (
    <Link
      to="/apply"
      className="inline-flex min-h-9 items-center gap-2 rounded-lg border border-transparent bg-accent px-3.5 py-1.5 text-sm font-medium text-on-accent hover:brightness-110"
    >
      <Icon name="stack" />
      Apply a file
    </Link>
  );
}
