-- What a replica sees to at its start. What an apply changes of providers is in queries/templates.

-- name: EnsureProvider :exec
-- The providers that every installation has; one that exists stays as it was configured.
INSERT INTO providers (name, kind, confirmed_at, updated_at) VALUES (@name, @kind, prewarm_now(), prewarm_now())
ON CONFLICT (name) DO NOTHING;
