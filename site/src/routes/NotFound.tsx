import { Link } from "@tanstack/react-router";
import { Page } from "../components/Page";
import { EmptyState } from "../components/Status";

/** NotFound is what paths lead to that no page has. */
export function NotFound() {
  return (
    <Page title="No such page">
      <EmptyState icon="search" title="There is nothing at this address">
        <Link to="/" className="link">
          To the pools
        </Link>
      </EmptyState>
    </Page>
  );
}
