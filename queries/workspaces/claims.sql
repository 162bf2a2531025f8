-- Claims (DESIGN section 6). The picking statements lock base-table rows with FOR NO KEY UPDATE and update exactly
-- those; who loses the race for a row moves on to the next. The active version and the expiry are conditions of the
-- statement, so that nothing outdated is handed out however late an apply came, nor what is about to expire (C9).

-- name: ClaimBatch :many
-- Any number of claims on any number of pools: one statement, one commit. Each gets the oldest ready workspace of its
-- pool that nobody else is at, current version, with claim, history and audit; in a pool that has too few, the first in
-- the batch are served. No row for a claim means that nothing was free, or that its key was used before. A key that
-- another transaction is using just now fails the whole batch on claims_key; keys are inserted in order, so that two
-- batches with the same keys wait for one another and never both.
--
-- A floor says where in ready_at a pool's ready workspaces begin, so that the scan does not walk over those that were
-- claimed before: while another session holds a snapshot, their index entries can't be removed.
--
-- Each array is a (SELECT …), which hides its length from the planner: a plan for these very arrays then never looks
-- cheaper than the one for any, which is kept. Planning anew takes as long as a batch of ten.
WITH instant AS MATERIALIZED (
  SELECT prewarm_now() AS now
), sent AS MATERIALIZED (
  SELECT unnest((SELECT @claim_ids::uuid[])) AS claim_id, unnest((SELECT @preset_ids::uuid[])) AS preset_id,
         unnest((SELECT @user_ids::uuid[])) AS user_id, nullif(unnest((SELECT @idempotency_keys::text[])), '') AS key,
         unnest((SELECT (@modes::text[])::claim_mode[])) AS mode, unnest((SELECT @sources::text[])) AS source,
         nullif(unnest((SELECT @leases::integer[])), 0) AS lease_s
), asked AS MATERIALIZED (
  SELECT s.claim_id, s.preset_id, s.user_id, s.key, s.mode, s.source, s.lease_s,
         row_number() OVER (PARTITION BY s.preset_id) AS place
  FROM sent s
  WHERE s.key IS NULL
     OR NOT (SELECT count(*) > 0 FROM claims c WHERE c.user_id = s.user_id AND c.idempotency_key = s.key)
), pools AS MATERIALIZED (
  SELECT p.id, p.pool_key, p.min_remaining_s, p.claim_lease_s, f.floor, wish.wanted
  FROM (SELECT unnest((SELECT @pools::uuid[])) AS preset_id, unnest((SELECT @floors::timestamptz[])) AS floor) f
  JOIN (SELECT a.preset_id, count(*) AS wanted FROM asked a GROUP BY a.preset_id) wish ON wish.preset_id = f.preset_id
  CROSS JOIN LATERAL ( -- with a limit, so that each preset is looked up; joined, all presets would be read for a batch
    SELECT preset.id, preset.pool_key, preset.min_remaining_s, t.claim_lease_s
    FROM presets preset
    JOIN templates t ON t.id = preset.template_id
    WHERE preset.id = f.preset_id AND preset.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL
      AND NOT preset.metered AND preset.forge_entity_id IS NULL -- those of runners are claimed by jobs
    LIMIT 1
  ) p
), picked AS MATERIALIZED (
  SELECT ready.id, pools.id AS preset_id, row_number() OVER (PARTITION BY pools.id ORDER BY ready.ready_at, ready.id) AS place
  FROM pools
  CROSS JOIN LATERAL (
    SELECT w.id, w.ready_at FROM workspaces w
    WHERE w.state = 'ready' AND w.preset_id = pools.id AND w.pool_key = pools.pool_key AND w.ready_at >= pools.floor
      AND (w.expires_at IS NULL OR w.expires_at > prewarm_now() + pools.min_remaining_s * interval '1 second')
    ORDER BY w.ready_at, w.id
    LIMIT pools.wanted
    FOR NO KEY UPDATE SKIP LOCKED
  ) ready
), moved AS (
  UPDATE workspaces w
  SET state = 'claimed', state_at = instant.now, claimed_at = instant.now, owner_id = asked.user_id,
      claim_id = asked.claim_id
  FROM picked
  JOIN asked ON asked.preset_id = picked.preset_id AND asked.place = picked.place
  CROSS JOIN instant
  WHERE w.id = picked.id
  RETURNING w.*
), claim AS (
  INSERT INTO claims (id, organization_id, preset_id, user_id, idempotency_key, mode, state, outcome, workspace_id,
                      incarnation, created_at, bound_at, lease_s, lease_until)
  SELECT asked.claim_id, moved.organization_id, moved.preset_id, asked.user_id, asked.key, asked.mode, 'bound', 'hit',
         moved.id, moved.incarnation, moved.claimed_at, moved.claimed_at, coalesce(asked.lease_s, pools.claim_lease_s),
         moved.claimed_at + coalesce(asked.lease_s, pools.claim_lease_s) * interval '1 second'
  FROM moved JOIN asked ON asked.claim_id = moved.claim_id JOIN pools ON pools.id = moved.preset_id
  ORDER BY asked.user_id, asked.key
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT moved.id, moved.incarnation, 'ready', 'claimed', moved.claimed_at, moved.owner_id, 'claimed' FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, after, source)
  SELECT moved.claimed_at, moved.owner_id, moved.organization_id, 'workspace.claim', 'workspace', moved.id::text,
         moved.name, jsonb_build_object('claim_id', asked.claim_id), asked.source
  FROM moved JOIN asked ON asked.claim_id = moved.claim_id
)
SELECT * FROM moved;

-- name: ClaimLast :one
-- Asked before a miss is answered: waits for rows that are locked just now instead of skipping them, and takes a
-- prebuild of an older version where the template keeps them claimable (C7), current ones first.
WITH pool AS (
  SELECT p.pool_key, p.min_remaining_s, t.keep_outdated, t.claim_lease_s
  FROM presets p JOIN templates t ON t.id = p.template_id
  WHERE p.id = @preset_id AND p.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL AND NOT p.metered
    AND p.forge_entity_id IS NULL
), picked AS (
  SELECT w.id FROM workspaces w
  WHERE w.state = 'ready' AND w.preset_id = @preset_id
    AND (w.pool_key = (SELECT pool.pool_key FROM pool) OR (SELECT pool.keep_outdated FROM pool))
    AND (w.expires_at IS NULL OR w.expires_at > prewarm_now()
                                   + (SELECT pool.min_remaining_s FROM pool) * interval '1 second')
  ORDER BY (w.pool_key <> (SELECT pool.pool_key FROM pool)), w.ready_at, w.id
  LIMIT 1
  FOR NO KEY UPDATE
), moved AS (
  UPDATE workspaces w
  SET state = 'claimed', state_at = prewarm_now(), claimed_at = prewarm_now(), owner_id = @user_id,
      claim_id = @claim_id::uuid
  FROM picked
  WHERE w.id = picked.id
  RETURNING w.*
), claim AS (
  INSERT INTO claims (id, organization_id, preset_id, user_id, idempotency_key, mode, state, outcome, workspace_id,
                      incarnation, created_at, bound_at, lease_s, lease_until)
  SELECT @claim_id::uuid, moved.organization_id, moved.preset_id, @user_id, sqlc.narg(idempotency_key), @mode, 'bound',
         'hit', moved.id, moved.incarnation, prewarm_now(), prewarm_now(),
         coalesce(sqlc.narg(lease_s)::integer, pool.claim_lease_s),
         prewarm_now() + coalesce(sqlc.narg(lease_s)::integer, pool.claim_lease_s) * interval '1 second'
  FROM moved, pool
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT moved.id, moved.incarnation, 'ready', 'claimed', prewarm_now(), @user_id, 'claimed' FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, after, source)
  SELECT prewarm_now(), @user_id, moved.organization_id, 'workspace.claim', 'workspace', moved.id::text, moved.name,
         jsonb_build_object('claim_id', @claim_id::uuid), @source
  FROM moved
)
SELECT * FROM moved;

-- name: BindOldest :many
-- Binds the oldest waiting claim of the preset to the oldest ready workspace; no row if either is lacking. A claim that
-- wants a workspace built for it is passed over while there is none that was planned after it came; those of a group
-- are bound together (BindTogether).
WITH pool AS (
  SELECT p.pool_key, p.min_remaining_s, t.keep_outdated, t.claim_lease_s
  FROM presets p JOIN templates t ON t.id = p.template_id
  WHERE p.id = @preset_id AND p.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL
    AND p.forge_entity_id IS NULL
), worth AS MATERIALIZED ( -- a claim waits and a workspace is ready: else no row is locked, and nothing is written
  SELECT FROM (
    SELECT c.preset_id FROM claims c
    WHERE c.preset_id = @preset_id AND c.state = 'waiting' AND c.deadline_at > prewarm_now() AND c.group_id IS NULL
    LIMIT 1
  ) c, LATERAL (
    SELECT FROM workspaces w
    WHERE w.state = 'ready' AND w.preset_id = c.preset_id
      AND (w.pool_key = (SELECT pool.pool_key FROM pool) OR (SELECT pool.keep_outdated FROM pool))
    LIMIT 1
  ) w
), waiter AS (
  SELECT c.id, c.user_id, c.cold, c.created_at, c.lease_s FROM claims c
  WHERE c.preset_id = @preset_id AND c.state = 'waiting' AND c.deadline_at > prewarm_now() AND c.group_id IS NULL
    AND EXISTS (SELECT FROM worth)
    AND (NOT c.cold OR EXISTS (SELECT FROM workspaces f
                               WHERE f.state = 'ready' AND f.preset_id = @preset_id AND f.created_at >= c.created_at
                                 AND f.pool_key = (SELECT pool.pool_key FROM pool)))
  ORDER BY c.created_at, c.id
  LIMIT 1
  FOR NO KEY UPDATE -- waits for whoever is at the head of the line; to skip it would be to overtake it
), picked AS (
  SELECT w.id FROM workspaces w
  WHERE w.state = 'ready' AND w.preset_id = @preset_id
    AND (w.pool_key = (SELECT pool.pool_key FROM pool) OR (SELECT pool.keep_outdated FROM pool))
    AND (w.expires_at IS NULL OR w.expires_at > prewarm_now()
                                   + (SELECT pool.min_remaining_s FROM pool) * interval '1 second')
    AND (SELECT count(*) FROM waiter) > 0 -- asked once: where nobody waits, no workspace is read
    AND (SELECT NOT waiter.cold OR w.created_at >= waiter.created_at FROM waiter)
  ORDER BY (w.pool_key <> (SELECT pool.pool_key FROM pool)), w.ready_at, w.id
  LIMIT 1
  FOR NO KEY UPDATE SKIP LOCKED
), moved AS (
  UPDATE workspaces w
  SET state = 'claimed', state_at = prewarm_now(), claimed_at = prewarm_now(), owner_id = waiter.user_id,
      claim_id = waiter.id
  FROM picked, waiter
  WHERE w.id = picked.id
  RETURNING w.id, w.name, w.incarnation, w.organization_id, w.template_id, w.claim_id, w.owner_id
), claim AS (
  UPDATE claims c
  SET state = 'bound', outcome = CASE WHEN c.cold THEN 'cold' ELSE 'waited' END::claim_outcome, bound_at = prewarm_now(),
      workspace_id = moved.id, incarnation = moved.incarnation, lease_s = coalesce(c.lease_s, pool.claim_lease_s),
      lease_until = prewarm_now() + coalesce(c.lease_s, pool.claim_lease_s) * interval '1 second'
  FROM moved, pool
  WHERE c.id = moved.claim_id
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT moved.id, moved.incarnation, 'ready', 'claimed', prewarm_now(), moved.owner_id, 'claimed after waiting'
  FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, after, source)
  SELECT prewarm_now(), moved.owner_id, moved.organization_id, 'workspace.claim', 'workspace', moved.id::text,
         moved.name, jsonb_build_object('claim_id', moved.claim_id), @source
  FROM moved
)
SELECT moved.claim_id::uuid AS claim_id, moved.id AS workspace_id, moved.template_id FROM moved;

-- name: PickReady :many
-- Locks so many ready workspaces of the pool for the claims of one request, oldest first, and skips those that others
-- are at. Where a workspace must be fresh, only those planned since then will do.
SELECT w.id FROM workspaces w
JOIN presets p ON p.id = w.preset_id
JOIN templates t ON t.id = p.template_id
WHERE w.state = 'ready' AND w.preset_id = @preset_id AND (w.pool_key = p.pool_key OR t.keep_outdated)
  AND p.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL
  AND (w.expires_at IS NULL OR w.expires_at > prewarm_now() + p.min_remaining_s * interval '1 second')
  AND (sqlc.narg(fresh_since)::timestamptz IS NULL OR w.created_at >= sqlc.narg(fresh_since)::timestamptz)
ORDER BY (w.pool_key <> p.pool_key), w.ready_at, w.id
LIMIT @wanted
FOR NO KEY UPDATE OF w SKIP LOCKED;

-- name: PickReadyLast :many
-- The same, asked once before it is a miss: waits for rows that others are at. All who wait go through a pool in one
-- order and come with no row of it, so that two requests that each have some never wait for each other's.
SELECT w.id FROM workspaces w
JOIN presets p ON p.id = w.preset_id
JOIN templates t ON t.id = p.template_id
WHERE w.state = 'ready' AND w.preset_id = @preset_id AND (w.pool_key = p.pool_key OR t.keep_outdated)
  AND p.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL
  AND (w.expires_at IS NULL OR w.expires_at > prewarm_now() + p.min_remaining_s * interval '1 second')
  AND (sqlc.narg(fresh_since)::timestamptz IS NULL OR w.created_at >= sqlc.narg(fresh_since)::timestamptz)
ORDER BY (w.pool_key <> p.pool_key), w.ready_at, w.id
LIMIT @wanted
FOR NO KEY UPDATE OF w;

-- name: BindTogether :many
-- Binds claims that wait to workspaces that this transaction has locked as ready, one to one.
WITH pairs AS MATERIALIZED (
  SELECT unnest(@claim_ids::uuid[]) AS claim_id, unnest(@workspace_ids::uuid[]) AS workspace_id
), moved AS (
  UPDATE workspaces w
  SET state = 'claimed', state_at = prewarm_now(), claimed_at = prewarm_now(), owner_id = @user_id, claim_id = pairs.claim_id
  FROM pairs
  WHERE w.id = pairs.workspace_id AND w.state = 'ready'
  RETURNING w.id, w.name, w.incarnation, w.organization_id, w.template_id, w.claim_id
), claim AS (
  UPDATE claims c
  SET state = 'bound', bound_at = prewarm_now(), workspace_id = moved.id, incarnation = moved.incarnation,
      outcome = CASE WHEN @at_once::boolean THEN 'hit' WHEN c.cold THEN 'cold' ELSE 'waited' END::claim_outcome,
      lease_s = coalesce(c.lease_s, t.claim_lease_s),
      lease_until = prewarm_now() + coalesce(c.lease_s, t.claim_lease_s) * interval '1 second'
  FROM moved JOIN templates t ON t.id = moved.template_id
  WHERE c.id = moved.claim_id AND c.state = 'waiting'
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT moved.id, moved.incarnation, 'ready', 'claimed', prewarm_now(), @user_id,
         CASE WHEN @at_once::boolean THEN 'claimed' ELSE 'claimed after waiting' END
  FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, after, source)
  SELECT prewarm_now(), @user_id, moved.organization_id, 'workspace.claim', 'workspace', moved.id::text, moved.name,
         jsonb_build_object('claim_id', moved.claim_id), @source
  FROM moved
)
SELECT moved.claim_id::uuid AS claim_id, moved.id AS workspace_id, moved.template_id FROM moved;

-- name: RenewLease :one
-- Only of a claim that holds its workspace, by the lease it had unless another is asked for. No row: it is over, or it
-- has no lease and none was asked for. A lease of the same length never ends before the end that was confirmed, also where
-- the database's clock was set back.
UPDATE claims c
SET lease_s = coalesce(sqlc.narg(lease_s)::integer, c.lease_s),
    lease_until = greatest(prewarm_now() + coalesce(sqlc.narg(lease_s)::integer, c.lease_s) * interval '1 second',
                           CASE WHEN sqlc.narg(lease_s)::integer IS NULL THEN c.lease_until END)
WHERE c.id = @claim_id AND c.state = 'bound' AND coalesce(sqlc.narg(lease_s)::integer, c.lease_s) IS NOT NULL
RETURNING c.lease_until;

-- name: LeaseOver :one
-- Asked again in the transaction that ends it, after the workspace is locked: whoever renewed it in between keeps it, and
-- whoever wants to renew it now waits and finds it over.
SELECT c.id FROM workspaces w
JOIN claims c ON c.id = w.claim_id AND c.state = 'bound'
WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'claimed'
  AND c.lease_until IS NOT NULL AND c.lease_until <= prewarm_now()
FOR NO KEY UPDATE OF c;

-- name: TakeBack :execrows
-- In the transaction that ends it, after the workspace is locked: its key is free for who asks next, who is given another. No row:
-- another request was told of it, or it has ended. Nor is there one while the binary before is at work, which does not say what it
-- tells (migration 00054).
UPDATE claims c SET idempotency_key = NULL
WHERE c.id = @claim_id AND c.state = 'bound' AND c.asked_again_at IS NULL
  AND (SELECT count(DISTINCT r.version) FROM replicas r WHERE r.heartbeat_at > prewarm_now() - interval '1 minute') <= 1;

-- name: LockClaimed :one
SELECT w.id FROM workspaces w
WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'claimed'
FOR NO KEY UPDATE;

-- name: ClaimForJob :one
-- ready -> claimed by the job of a forge, which its runner was given already: the workspace was picked by the forge. The
-- claim is as old as the job, and a hit where the runner was ready by then. It has no lease, as the job ends it. A job that
-- is not known of (yet) is as old as its claim.
WITH ws AS (
  SELECT w.id, w.ready_at FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'ready'
  FOR NO KEY UPDATE
), job AS (
  SELECT j.queued_at FROM forge_jobs j WHERE j.id = sqlc.narg(job_id)::uuid
), moved AS (
  UPDATE workspaces w
  SET state = 'claimed', state_at = prewarm_now(), claimed_at = prewarm_now(), owner_id = @forge_jobs,
      claim_id = @claim_id::uuid
  FROM ws
  WHERE w.id = ws.id
  RETURNING w.id, w.name, w.incarnation, w.organization_id, w.template_id, w.preset_id
), claim AS (
  INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, workspace_id, incarnation, created_at,
                      bound_at)
  SELECT @claim_id::uuid, moved.organization_id, moved.preset_id, @forge_jobs, 'require', 'bound',
         CASE WHEN ws.ready_at > (SELECT job.queued_at FROM job) THEN 'waited' ELSE 'hit' END::claim_outcome,
         moved.id, moved.incarnation, least((SELECT job.queued_at FROM job), prewarm_now()), prewarm_now()
  FROM moved, ws
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT moved.id, moved.incarnation, 'ready', 'claimed', prewarm_now(), @forge_jobs, @reason FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, after, reason, source)
  SELECT prewarm_now(), @forge_jobs, moved.organization_id, 'workspace.claim', 'workspace', moved.id::text, moved.name,
         jsonb_build_object('claim_id', @claim_id::uuid), @reason, @source
  FROM moved
)
SELECT id, template_id, preset_id FROM moved;
