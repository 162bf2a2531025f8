import { further, type Pages } from "../services/pages";
import { counted } from "../services/words";
import { Button } from "./Button";

/** More is below a page of a list, and fetches the next one. A search may stop where it has found nothing yet. */
export function More({ of, shown, what, plural = `${what}s` }: { of: Pages; shown: number; what: string; plural?: string }) {
  return (
    <div className="flex flex-wrap items-center justify-between gap-3 text-sm text-ink-2">
      <p role="status">
        {shown === 0 && of.hasNextPage ? `No ${what} matches among the newest; older ones were not searched` : counted(shown, what, plural)}
        {shown > 0 && of.hasNextPage ? ", and there are more" : ""}
      </p>
      {of.hasNextPage && (
        <Button busy={of.isFetchingNextPage} onClick={() => void further(of)}>
          {shown === 0 ? "Search older ones" : "Show more"}
        </Button>
      )}
    </div>
  );
}
