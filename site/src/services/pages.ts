import { useInfiniteQuery } from "@tanstack/react-query";
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

/** usePages reads a list page by page, as far as one has gone on, and keeps all of it current. */
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
