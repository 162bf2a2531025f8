-- What is known to be gone at its provider, and breakers that failing calls have opened.
--
-- The binary before knows none of this and runs on: it counts what is gone against the maximum as it did, and its breakers
-- hold deletes back too.

-- +goose Up
SET LOCAL lock_timeout = '10s';

-- Since when the provider is known to have nothing of it: two complete inventories agree. Cleared when it is seen again, and
-- when something is made of it again. In other states than those of the index it says nothing.
ALTER TABLE workspaces ADD COLUMN gone_at timestamptz;

-- Read beside the counts of what lives at a provider, which stay as cheap as they were.
CREATE INDEX workspaces_gone ON workspaces (provider)
  WHERE gone_at IS NOT NULL AND state IN ('claimed', 'quarantined', 'draining', 'deleting');

-- +goose StatementBegin
-- How many places of a maximum are taken at a provider (S4): by what is there or may be there, which is what is neither deleted
-- nor known to be gone. Each count has its index.
CREATE FUNCTION prewarm_places(of_provider text) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT (SELECT count(*) FROM workspaces w WHERE w.provider = of_provider AND w.state = 'claimed')
       + (SELECT count(*) FROM workspaces w WHERE w.provider = of_provider AND w.state NOT IN ('claimed', 'deleted'))
       - (SELECT count(*) FROM workspaces w WHERE w.provider = of_provider AND w.gone_at IS NOT NULL
            AND w.state IN ('claimed', 'quarantined', 'draining', 'deleting'))
$$;
-- +goose StatementEnd

-- An open breaker that calls which failed have opened: it holds no delete back, and calls that succeed close it.
ALTER TABLE inventories ADD COLUMN by_calls boolean NOT NULL DEFAULT false;
