-- The record of who did what, written in the transaction of the deed.

-- name: InsertAudit :exec
INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, before, after,
                       reason, source)
VALUES (prewarm_now(), @actor_id, @organization_id, @action, @target_type, @target_id, @target_name, @before, @after,
        @reason, @source);

-- name: AuditLog :many
-- Newest first, from before_id down. What belongs to no organization, such as a provider, is in everybody's log.
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
ORDER BY a.id DESC
LIMIT @max_entries;
