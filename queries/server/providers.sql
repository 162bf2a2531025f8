-- What a replica sees to at its start. What an apply changes of providers is in queries/templates.

-- name: EnsureProvider :exec
-- The providers that every installation has; one that exists stays as it was configured.
INSERT INTO providers (name, kind, confirmed_at, updated_at) VALUES (@name, @kind, prewarm_now(), prewarm_now())
ON CONFLICT (name) DO NOTHING;

-- name: RemovedProviders :many
-- Those that are no longer configured, with work on their workspaces still to do: it is tried, and says why it fails.
SELECT DISTINCT j.provider FROM jobs j
WHERE j.state IN ('pending', 'running') AND NOT EXISTS (SELECT FROM providers p WHERE p.name = j.provider);
