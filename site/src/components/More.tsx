import { Button } from "./Button";

interface Paged {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

/** More is below a page of a list, and fetches the next one. */
export function More({ of, shown, what }: { of: Paged; shown: number; what: string }) {
  return (
    <div className="flex flex-wrap items-center justify-between gap-3 text-sm text-ink-2">
      <p role="status">
        {shown} {what}
        {of.hasNextPage ? ", and there are more" : ""}
      </p>
      {of.hasNextPage && (
        <Button busy={of.isFetchingNextPage} onClick={() => void of.fetchNextPage()}>
          Show more
        </Button>
      )}
    </div>
  );
}
