import { Link } from "@tanstack/react-router";
import { Page } from "../components/Page";
import { EmptyState } from "../components/Status";

/** NotFound is what paths lead to that no page has. */
export function NotFound() {
  return (
    <Page title="Page not found">
      <EmptyState icon="search" title="There is no page at this address">
        Check the address, search with Ctrl-K, or go to the{" "}
        <Link to="/" className="link">
          pools
        </Link>
        .
      </EmptyState>
    </Page>
  );
}
