import { useQuery } from "@tanstack/react-query";
import { Page } from "../../components/Page";
import { ErrorState, Loading } from "../../components/Status";
import { read } from "../../services/query";
import { PassView, ReplicasView } from "./ReplicasView";

/** How often this is read, in milliseconds: that passes end, and that a process goes silent, nothing hints at. */
const every = 5_000;

/** Replicas are the processes that serve this page, and do the passes and the work. */
export function Replicas() {
  const list = useQuery({ ...read("list-replicas"), refetchInterval: every });
  const pass = useQuery({ ...read("get-last-pass"), refetchInterval: every });
  return (
    <Page title="Replicas" lead="Server processes sharing one database.">
      {pass.error && <ErrorState error={pass.error} retry={() => void pass.refetch()} />}
      {pass.data && <PassView pass={pass.data} readAt={pass.dataUpdatedAt} />}
      {list.error && <ErrorState error={list.error} retry={() => void list.refetch()} />}
      {list.isPending && <Loading lines={3} />}
      {list.data && <ReplicasView replicas={list.data} />}
    </Page>
  );
}
