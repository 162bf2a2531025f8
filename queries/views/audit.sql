-- The audit log and the tokens, as people see them.

-- name: AuditLog :many
-- Newest first, from before_id down. What belongs to no organization, such as a provider, is in everybody's log. words are
-- patterns, each of which must match what an entry says; a search goes down to bottom_id (AuditWindow).
SELECT a.id, a.at, a.actor_id, coalesce(u.name, '') AS actor, coalesce(o.name, '') AS organization, a.action,
       a.target_type, a.target_id, a.target_name, a.before, a.after, a.reason, a.source
FROM audit_log a
LEFT JOIN users u ON u.id = a.actor_id
LEFT JOIN organizations o ON o.id = a.organization_id
WHERE (a.organization_id = @organization_id::uuid OR a.organization_id IS NULL)
  AND (sqlc.narg(before_id)::bigint IS NULL OR a.id < sqlc.narg(before_id)::bigint)
  AND (NOT @people::boolean OR a.actor_id <> '00000000-0000-4000-8000-000000000002') -- the built-in identity
  AND (sqlc.narg(since)::timestamptz IS NULL OR a.at >= sqlc.narg(since)::timestamptz)
  AND (sqlc.narg(until)::timestamptz IS NULL OR a.at < sqlc.narg(until)::timestamptz)
  AND (sqlc.narg(action)::text IS NULL OR a.action = sqlc.narg(action)::text)
  AND (sqlc.narg(actor)::text IS NULL OR u.name = sqlc.narg(actor)::text)
  AND (sqlc.narg(target)::text IS NULL OR a.target_id = sqlc.narg(target)::text
       OR a.target_name = sqlc.narg(target)::text)
  AND (sqlc.narg(words)::text[] IS NULL
       OR concat_ws(' ', u.name, a.action, a.target_type, a.target_name, a.target_id, a.reason, a.source) ILIKE ALL (sqlc.narg(words)::text[]))
  AND (sqlc.narg(bottom_id)::bigint IS NULL OR a.id >= sqlc.narg(bottom_id)::bigint)
ORDER BY a.id DESC
LIMIT @max_entries;

-- name: AuditWindow :one
-- The last of so many entries from before_id down: how far one search goes. No row where there are fewer.
SELECT a.id
FROM audit_log a
WHERE (a.organization_id = @organization_id::uuid OR a.organization_id IS NULL)
  AND (sqlc.narg(before_id)::bigint IS NULL OR a.id < sqlc.narg(before_id)::bigint)
ORDER BY a.id DESC
OFFSET @size LIMIT 1;

-- name: Tokens :many
-- Of one user, or of all where user_id is null; newest first.
SELECT tk.id, tk.name, u.name AS user_name, m.role, tk.hint, tk.created_at, tk.expires_at, tk.last_used_at,
       tk.revoked_at, tk.made_with
FROM tokens tk
JOIN users u ON u.id = tk.user_id
JOIN memberships m ON m.user_id = u.id AND m.organization_id = @organization_id
WHERE sqlc.narg(user_id)::uuid IS NULL OR tk.user_id = sqlc.narg(user_id)::uuid
ORDER BY tk.created_at DESC, tk.id;
