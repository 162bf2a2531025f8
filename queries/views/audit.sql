-- The audit log and the tokens, as people see them.

-- name: AuditLog :many
-- Newest first, from before_at and before_id down (AuditPlace). What belongs to no organization, such as a provider, is in
-- everybody's log. words are patterns, each of which must match what an entry says; a search goes down to bottom_at and
-- bottom_id (AuditWindow). In the order of time, the partitions are read one after another, and no older one than a page needs.
SELECT a.id, a.at, a.actor_id, coalesce(u.name, '') AS actor, coalesce(o.name, '') AS organization, a.action,
       a.target_type, a.target_id, a.target_name, a.before, a.after, a.reason, a.source
FROM audit_log a
LEFT JOIN users u ON u.id = a.actor_id
LEFT JOIN organizations o ON o.id = a.organization_id
WHERE (a.organization_id = @organization_id::uuid OR a.organization_id IS NULL)
  -- Of the times each comparison leaves partitions out, and those of pairs say where to begin and to end.
  AND a.at <= coalesce(sqlc.narg(before_at)::timestamptz, 'infinity')
  AND (a.at, a.id) < (coalesce(sqlc.narg(before_at)::timestamptz, 'infinity'), coalesce(sqlc.narg(before_id)::bigint, 9223372036854775807))
  AND a.at >= coalesce(sqlc.narg(bottom_at)::timestamptz, '-infinity')
  AND (a.at, a.id) >= (coalesce(sqlc.narg(bottom_at)::timestamptz, '-infinity'), coalesce(sqlc.narg(bottom_id)::bigint, 0))
  AND a.at >= coalesce(sqlc.narg(since)::timestamptz, '-infinity')
  AND a.at < coalesce(sqlc.narg(until)::timestamptz, 'infinity')
  AND (NOT @people::boolean OR a.actor_id <> '00000000-0000-4000-8000-000000000002') -- the built-in identity
  AND (sqlc.narg(action)::text IS NULL OR a.action = sqlc.narg(action)::text)
  AND (sqlc.narg(actor)::text IS NULL OR u.name = sqlc.narg(actor)::text)
  AND (sqlc.narg(target)::text IS NULL OR a.target_id = sqlc.narg(target)::text
       OR a.target_name = sqlc.narg(target)::text)
  AND (sqlc.narg(words)::text[] IS NULL
       OR concat_ws(' ', u.name, a.action, a.target_type, a.target_name, a.target_id, a.reason, a.source) ILIKE ALL (sqlc.narg(words)::text[]))
ORDER BY a.at DESC, a.id DESC
LIMIT @max_entries;

-- name: AuditPlace :one
-- Where in the order of time a page before an id begins. The entry itself may have been dropped: then it is the one before it.
SELECT a.at FROM audit_log a WHERE a.id <= @id::bigint ORDER BY a.id DESC LIMIT 1;

-- name: AuditWindow :one
-- The last of so many entries from before_at and before_id down: how far one search goes. No row where there are fewer.
SELECT a.at, a.id
FROM audit_log a
WHERE (a.organization_id = @organization_id::uuid OR a.organization_id IS NULL)
  AND a.at <= coalesce(sqlc.narg(before_at)::timestamptz, 'infinity')
  AND (a.at, a.id) < (coalesce(sqlc.narg(before_at)::timestamptz, 'infinity'), coalesce(sqlc.narg(before_id)::bigint, 9223372036854775807))
ORDER BY a.at DESC, a.id DESC
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
