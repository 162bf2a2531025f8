import { useNavigate, useSearch } from "@tanstack/react-router";
import { Page } from "../../components/Page";
import { ErrorState, Loading } from "../../components/Status";
import { useAct, useRead } from "../../services/query";
import { useMay } from "../../services/session";
import { CreateToken } from "./CreateToken";
import { QuotaView } from "./QuotaView";
import { Roles, TokensView } from "./TokensView";

/** Tokens are what people, jobs and agents sign in with, by whose they are. */
export function Tokens() {
  const { ended } = useSearch({ from: "/inside/tokens" });
  const navigate = useNavigate({ from: "/tokens" });
  const may = useMay();
  const who = useRead("whoami").data;
  const list = useRead("list-tokens");
  const quotas = useRead("list-quotas");
  const revoke = useAct("revoke-token");
  const setQuota = useAct("set-quota");
  return (
    <Page
      title="Users & tokens"
      lead="What people, jobs and agents sign in with. A secret is shown once, when it is made."
      actions={may("create-token") && who && <CreateToken who={who} tokens={list.data ?? []} />}
    >
      {list.error && <ErrorState error={list.error} retry={() => void list.refetch()} />}
      {list.isPending && <Loading lines={3} />}
      {list.data && (
        <TokensView
          tokens={list.data}
          own={who?.token_id}
          ended={ended ?? false}
          onEnded={(shown) => void navigate({ search: { ended: shown || undefined }, replace: true, resetScroll: false })}
          onRevoke={may("revoke-token") ? (id) => revoke.mutateAsync({ params: { token: id } }) : undefined}
        />
      )}
      <div className="grid gap-6 lg:grid-cols-2 lg:items-start">
        {quotas.error && <ErrorState error={quotas.error} retry={() => void quotas.refetch()} />}
        {quotas.data?.map((q) => (
          <QuotaView
            key={q.organization}
            quota={q}
            onChange={may("set-quota") ? (limits) => setQuota.mutateAsync({ body: limits }) : undefined}
          />
        ))}
        <Roles />
      </div>
    </Page>
  );
}
