import { QueryClient, queryOptions, useMutation, useQuery, useQueryClient, type Query } from "@tanstack/react-query";
import type { Operations } from "../generated/api";
import { call, Problem, type Answer, type Input } from "./api";
import { connection } from "./connection";
import { stream } from "./stream";

/**
 * How often what is shown is read again without a hint: seldom while hints come, often while they do not, and not while the
 * server is lost: services/connection.ts asks for it then.
 */
const backstop = () => !connection.lost() && (stream.up() ? 60_000 : 5_000) * (0.9 + Math.random() * 0.2);

/** makeQueryClient is the cache of everything that was read. */
export function makeQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 10_000,
        refetchInterval: backstop,
        refetchOnWindowFocus: true,
        networkMode: "always",
        retry: (count, error) => count < 3 && !connection.lost() && !(error instanceof Problem && error.status >= 400 && error.status < 500),
        retryDelay: (attempt) => Math.min(500 * 2 ** attempt, 5_000),
      },
      mutations: { networkMode: "always" },
    },
  });
}

/** read is the query of an operation; its key begins with the operation's id, which services/invalidate.ts goes by. */
export function read<K extends keyof Operations>(id: K, ...[input]: {} extends Input<K> ? [Input<K>?] : [Input<K>]) {
  return queryOptions({
    queryKey: [id, input?.params ?? {}] as const,
    queryFn: () => (call as (id: K, input?: Input<K>) => Promise<Answer<K>>)(id, input),
  });
}

/** useRead reads an operation and keeps it current. */
export function useRead<K extends keyof Operations>(id: K, ...rest: {} extends Input<K> ? [Input<K>?] : [Input<K>]) {
  return useQuery(read(id, ...rest));
}

/**
 * refresh has what is shown, and meets the condition, read again. A next page that is being fetched comes first: to read its list
 * again would end that, and whoever asked for the page would not get it.
 */
export async function refresh(client: QueryClient, condition: (query: Query) => boolean = () => true): Promise<void> {
  const paging = (query: Query) => query.state.fetchStatus !== "idle" && query.state.fetchMeta?.fetchMore !== undefined;
  const later = client.getQueryCache().findAll({ predicate: (query) => condition(query) && paging(query) });
  await Promise.all([
    client.invalidateQueries({ predicate: (query) => condition(query) && !later.includes(query) }),
    ...later.map(async (list) => {
      await list.promise?.catch(() => undefined);
      await refresh(client, (query) => query === list);
    }),
  ]);
}

/** useAct does an operation that changes something, and has everything that is shown read again. */
export function useAct<K extends keyof Operations>(id: K) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (input: Input<K>) => (call as (id: K, input: Input<K>) => Promise<Answer<K>>)(id, input),
    onSettled: () => refresh(client),
  });
}
