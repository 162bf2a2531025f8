-- What a database that was put back from a backup must forget, in the transaction of `prewarm admin after-restore`.

-- name: RunningReplicas :one
-- How many sessions of replicas there are, but for those of `prewarm admin after-restore` itself.
SELECT count(*)::integer AS sessions
FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'prewarm/%'
  AND application_name NOT IN ('prewarm/after-restore', 'prewarm/migrate');

-- name: MissRestored :execrows
-- Who waited at the time of the backup waits no more.
UPDATE claims SET state = 'missed', outcome = 'miss', reason = @reason, idempotency_key = NULL
WHERE state = 'waiting';

-- name: ForgetTokens :execrows
-- One that was revoked since the backup would be good again. Deleted rather than revoked, so that every replica makes
-- itself a new token of the owner.
DELETE FROM tokens;

-- name: ForgetReplicas :execrows
DELETE FROM replicas;

-- name: ForgetInventories :exec
-- What was seen before says nothing of what was made since the backup; and what was made in that time has no row, without
-- being an orphan (see TimesAtWork).
WITH findings AS (DELETE FROM inventory_findings), times AS (DELETE FROM times_at_work)
DELETE FROM inventories;

-- name: RecordRestore :exec
INSERT INTO audit_log (at, actor_id, action, target_type, target_id, reason, source)
SELECT prewarm_now(), @actor_id, 'installation.after-restore', 'installation', i.id::text, @reason, @source
FROM installation i;

-- name: TemplatesOfOldDefaults :many
-- Templates whose active version keeps defaults of a kind of provider from before.
SELECT t.name FROM templates t
JOIN template_versions v ON v.id = t.active_version_id
JOIN providers p ON p.name = v.provider
WHERE t.deleted_at IS NULL AND p.kind = @kind AND v.defaults < @defaults
ORDER BY t.name LIMIT 100;
