-- Providers that are configured, or deleted and not empty yet; and what uses them.

-- name: ProviderUse :many
-- What each provider has: workspaces that are claimed and that are not, and creates in flight. Each half reads its own
-- partial index, once for all providers.
SELECT p.name, coalesce(c.n, 0)::int AS claimed, coalesce(u.n, 0)::int AS unclaimed, coalesce(j.n, 0)::int AS creating
FROM providers p
LEFT JOIN (SELECT w.provider, count(*) AS n FROM workspaces w WHERE w.state = 'claimed' GROUP BY w.provider) c
  ON c.provider = p.name
LEFT JOIN (SELECT w.provider, count(*) AS n FROM workspaces w WHERE w.state NOT IN ('claimed', 'deleted')
           GROUP BY w.provider) u ON u.provider = p.name
LEFT JOIN (SELECT x.provider, count(*) AS n FROM jobs x WHERE x.state = 'running' AND x.kind = 'create'
           GROUP BY x.provider) j ON j.provider = p.name
WHERE p.emptied_at IS NULL;

-- name: Providers :many
SELECT * FROM providers WHERE emptied_at IS NULL ORDER BY name;

-- name: ProvidersEver :many
-- Those that are deleted and empty too: their names and kinds are taken.
SELECT * FROM providers ORDER BY name;

-- name: RemovedProviders :many
-- Those that are retired, with work all the same, such as of a replica of the release before: it is tried, and says why it fails.
SELECT DISTINCT j.provider FROM jobs j
WHERE j.state IN ('pending', 'running') AND NOT EXISTS (
  SELECT FROM providers p WHERE p.name = j.provider AND p.emptied_at IS NULL);
