import { useInfiniteQuery, type UseInfiniteQueryResult } from "@tanstack/react-query";
import type { Operations } from "../generated/api";
import { call, type Answer, type Input } from "./api";

/** Lists that answer a page at a time, and the parameter that takes what the page before gave as next. */
const cursors = {
  "list-claims": "after",
  "list-files": "after",
  "list-forge-jobs": "after",
  "list-runners": "after",
  "list-audit": "before",
  "list-template-versions": "before",
} as const satisfies Partial<Record<keyof Operations, string>>;

export type Listed = keyof typeof cursors;

type Params<K extends Listed> = NonNullable<Input<K>["params"]>;

/**
 * usePages reads a list page by page, as far as one has gone on, and keeps all of it current: see refresh in services/query.ts
 * for news that come while a page is fetched, and further for a page that is asked for while the list is read again.
 */
export function usePages<K extends Listed>(id: K, params: Params<K>, options: { refetchInterval?: number } = {}) {
  return useInfiniteQuery({
    queryKey: [id, params, "pages"] as const,
    initialPageParam: undefined as string | number | undefined,
    queryFn: ({ pageParam }) =>
      (call as (id: K, input: { params: object }) => Promise<Answer<K>>)(id, {
        params: { ...params, [cursors[id]]: pageParam },
      }),
    getNextPageParam: (last) => last.next || undefined,
    ...options,
  });
}

export type Pages = Pick<UseInfiniteQueryResult, "hasNextPage" | "isFetchingNextPage" | "isRefetching" | "fetchNextPage" | "refetch">;

/** further fetches the next page of a list. That ends a reading of the pages before it, which is made up for. */
export async function further(list: Pages): Promise<void> {
  const interrupts = list.isRefetching;
  await list.fetchNextPage();
  if (interrupts) await list.refetch({ cancelRefetch: false });
}
