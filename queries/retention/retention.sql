-- What is kept is bounded by age. Each statement takes a batch, so that none holds locks for long.

-- name: FreeOldKeys :execrows
-- Keys of released claims are kept for a day: a retry within it finds what it was given. Those of claims that hold a
-- workspace stay for as long as they do.
UPDATE claims c SET idempotency_key = NULL
WHERE c.id = ANY (ARRAY(
  SELECT o.id FROM claims o
  WHERE o.state = 'released' AND o.idempotency_key IS NOT NULL
    AND o.released_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
  ORDER BY o.released_at LIMIT @batch FOR UPDATE SKIP LOCKED));

-- name: PurgePresetSamples :execrows
DELETE FROM preset_samples h
USING (SELECT o.preset_id, o.bucket FROM preset_samples o
       WHERE o.bucket < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
       ORDER BY o.bucket LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE h.preset_id = old.preset_id AND h.bucket = old.bucket;

-- name: PurgeClaimParameters :execrows
-- Those of claims that are over at once, those that never had one after an hour: the claim may be about to be made.
DELETE FROM claim_parameters p
WHERE NOT EXISTS (SELECT FROM claims c WHERE c.id = p.claim_id AND c.state IN ('waiting', 'bound'))
  AND (p.created_at < prewarm_now() - interval '1 hour'
       OR p.secrets IS NOT NULL AND p.created_at < prewarm_now() - interval '1 minute' OR EXISTS (SELECT FROM claims c WHERE c.id = p.claim_id));

-- name: PurgeNotifications :execrows
DELETE FROM notifications n
USING (SELECT o.id FROM notifications o
       WHERE o.created_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
         AND o.ended_at IS NOT NULL AND o.state <> 'pending'
       ORDER BY o.created_at LIMIT @batch) old
WHERE n.id = old.id;

-- name: PurgePlans :execrows
-- Those that are over, and of each organization all but the latest, so that nobody fills the database with plans.
DELETE FROM plans p
WHERE p.expires_at <= prewarm_now()
   OR p.id IN (SELECT x.id FROM (SELECT o.id, row_number() OVER (PARTITION BY o.organization_id
                                          ORDER BY o.created_at DESC, o.id) AS place FROM plans o) x
               WHERE x.place > sqlc.arg(most)::int);

-- name: PurgeReplicas :execrows
DELETE FROM replicas WHERE heartbeat_at < prewarm_now() - interval '1 day';

-- name: PurgeWorkspaces :execrows
-- Deleted workspaces, with their jobs (by trigger).
DELETE FROM workspaces w
USING (SELECT d.id FROM workspaces d
       WHERE d.state = 'deleted' AND d.deleted_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
       ORDER BY d.deleted_at LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE w.id = old.id;

-- name: AllowLongStep :exec
-- For the rest of the transaction: to validate a constraint reads a whole partition.
SELECT set_config('statement_timeout', '0', true);

-- name: KeepLog :one
-- The next step of the upkeep of a partitioned log, and '' if there is none (migration 00050).
SELECT prewarm_keep_log(@log::text, @unit::text, sqlc.arg(keep_s)::double precision * interval '1 second', @batch::int)::text AS step;

-- name: AnalyzeLog :exec
SELECT prewarm_analyze_log(@log::text);

-- name: PurgeHistory :execrows
-- Of the partition that was there before there were others, until it is old enough to be dropped as they are.
DELETE FROM workspace_history h
USING (SELECT o.id, o.at FROM workspace_history o
       WHERE o.at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
         AND (SELECT prewarm_log_before_ends('workspace_history')) > prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
         AND o.at < (SELECT prewarm_log_before_ends('workspace_history'))
         AND NOT EXISTS (SELECT FROM workspaces w WHERE w.id = o.workspace_id)
       ORDER BY o.id LIMIT @batch) old
WHERE h.id = old.id AND h.at = old.at;

-- name: PurgeClaims :execrows
-- Released and missed claims; with them go their idempotency keys.
DELETE FROM claims c
USING (SELECT o.id FROM claims o
       WHERE o.state IN ('released', 'missed')
         AND coalesce(o.released_at, o.created_at) < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
       LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE c.id = old.id;

-- name: PurgeAudit :execrows
-- As PurgeHistory.
DELETE FROM audit_log a
USING (SELECT o.id, o.at FROM audit_log o
       WHERE o.at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
         AND (SELECT prewarm_log_before_ends('audit_log')) > prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
         AND o.at < (SELECT prewarm_log_before_ends('audit_log'))
       ORDER BY o.at LIMIT @batch) old
WHERE a.id = old.id AND a.at = old.at;

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

-- name: PurgeClaimHistory :execrows
DELETE FROM claim_history h
USING (SELECT o.preset_id, o.bucket FROM claim_history o
       WHERE o.bucket < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
       ORDER BY o.bucket LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE h.preset_id = old.preset_id AND h.bucket = old.bucket;

-- name: PurgePresetSizes :execrows
-- Of presets that are gone, or not sized any more.
DELETE FROM preset_sizes s WHERE s.computed_at < prewarm_now() - interval '7 days';

-- name: PurgeTerraformStates :execrows
-- All but the newest of each workspace, and all of workspaces that are gone. Versions have no gaps but at their beginning.
DELETE FROM terraform_states s
USING (SELECT o.workspace_id, o.version FROM terraform_states o
       WHERE o.version <= (SELECT max(n.version) FROM terraform_states n WHERE n.workspace_id = o.workspace_id) - sqlc.arg(keep)::int
          OR NOT EXISTS (SELECT FROM workspaces w WHERE w.id = o.workspace_id)
             AND NOT EXISTS (SELECT FROM terraform_runs r
                             WHERE r.workspace_id = o.workspace_id AND r.check_until > prewarm_now() - interval '7 days')
       LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE s.workspace_id = old.workspace_id AND s.version = old.version;

-- name: PurgeTerraformRuns :execrows
DELETE FROM terraform_runs r
USING (SELECT o.workspace_id FROM terraform_runs o
       WHERE NOT EXISTS (SELECT FROM workspaces w WHERE w.id = o.workspace_id)
         AND (o.check_until IS NULL OR o.check_until < prewarm_now() - interval '7 days')
       LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE r.workspace_id = old.workspace_id;

-- name: PurgeTerraformModules :execrows
-- Archives that no version of their organization names, nor any workspace that was made with one. One that was used since this
-- began is looked at again, and stays.
DELETE FROM terraform_modules m
USING (SELECT o.organization_id, o.digest FROM terraform_modules o
       WHERE o.used_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
         AND NOT EXISTS (SELECT FROM template_versions v JOIN templates t ON t.id = v.template_id
                         WHERE v.spec ->> 'module' = o.digest AND v.spec ->> 'module' LIKE 'sha256:%'
                           AND t.organization_id = o.organization_id AND t.deleted_at IS NULL)
         AND NOT EXISTS (SELECT FROM terraform_runs r WHERE r.archive = o.digest)
       ORDER BY o.used_at LIMIT @batch FOR UPDATE OF o SKIP LOCKED) old
WHERE m.organization_id = old.organization_id AND m.digest = old.digest;
