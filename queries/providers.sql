-- Configured providers. What an apply changes of them is in templates.sql.

-- name: EnsureProvider :exec
-- The providers that every installation has; one that exists stays as it was configured.
INSERT INTO providers (name, kind, updated_at) VALUES (@name, @kind, prewarm_now()) ON CONFLICT (name) DO NOTHING;
