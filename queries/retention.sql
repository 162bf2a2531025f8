-- What is kept is bounded by age. Each statement takes a batch, so that none holds locks for long.

-- name: PurgeWorkspaces :execrows
-- Deleted workspaces, with their jobs (by trigger).
DELETE FROM workspaces w
USING (SELECT d.id FROM workspaces d
       WHERE d.state = 'deleted' AND d.deleted_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
       ORDER BY d.deleted_at LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE w.id = old.id;

-- name: PurgeHistory :execrows
DELETE FROM workspace_history h
USING (SELECT o.id FROM workspace_history o
       WHERE o.at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
         AND NOT EXISTS (SELECT FROM workspaces w WHERE w.id = o.workspace_id)
       ORDER BY o.id LIMIT @batch) old
WHERE h.id = old.id;

-- name: PurgeClaims :execrows
-- Released and missed claims; with them go their idempotency keys.
DELETE FROM claims c
USING (SELECT o.id FROM claims o
       WHERE o.state IN ('released', 'missed')
         AND coalesce(o.released_at, o.created_at) < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
       LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE c.id = old.id;

-- name: PurgeAudit :execrows
DELETE FROM audit_log a
USING (SELECT o.id FROM audit_log o
       WHERE o.at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
       ORDER BY o.at LIMIT @batch) old
WHERE a.id = old.id;

-- name: PurgeSessions :execrows
-- Sessions of browsers that have expired.
DELETE FROM sessions se
USING (SELECT o.id FROM sessions o
       WHERE o.expires_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
       ORDER BY o.expires_at LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE se.id = old.id;

-- name: PurgeFailureCauses :execrows
DELETE FROM preset_failure_causes c
WHERE c.last_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second';

-- name: PurgePoolProofs :execrows
-- Proofs of pools that no preset has any more. A version that is taken up again later has to prove itself again.
DELETE FROM pool_proofs d
USING (SELECT o.preset_id, o.pool_key FROM pool_proofs o
       WHERE o.ready_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
         AND NOT EXISTS (SELECT FROM presets p
                         WHERE p.id = o.preset_id AND p.pool_key = o.pool_key AND p.deleted_at IS NULL)
       ORDER BY o.ready_at LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE d.preset_id = old.preset_id AND d.pool_key = old.pool_key;

-- name: PurgeIntents :execrows
-- Intents whose workspace is gone; normally a worker has dropped them long before.
DELETE FROM intents i
WHERE i.created_at < prewarm_now() - interval '1 hour'
  AND NOT EXISTS (SELECT FROM workspaces w WHERE w.id = i.workspace_id AND w.state NOT IN ('claimed', 'deleted'));

-- name: PurgeForgeDeliveries :execrows
-- Webhooks' deliveries that were handled, with their bodies.
DELETE FROM forge_deliveries d
USING (SELECT o.id FROM forge_deliveries o
       WHERE o.handled_at IS NOT NULL
         AND o.received_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
       ORDER BY o.received_at LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE d.id = old.id;

-- name: PurgeForgeRunners :execrows
-- Runners of which nothing is to be asked any more, and of whose workspace nothing is left.
DELETE FROM forge_runners d
USING (SELECT o.workspace_id, o.incarnation FROM forge_runners o
       WHERE o.removed_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
         AND o.created_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
         AND NOT EXISTS (SELECT FROM workspaces w WHERE w.id = o.workspace_id)
       ORDER BY o.created_at LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE d.workspace_id = old.workspace_id AND d.incarnation = old.incarnation;

-- name: PurgeForgeJobs :execrows
DELETE FROM forge_jobs j
USING (SELECT o.id FROM forge_jobs o
       WHERE o.state = 'completed'
         AND o.completed_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
       ORDER BY o.completed_at LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE j.id = old.id;
