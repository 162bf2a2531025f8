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
WITH instant AS MATERIALIZED (
  SELECT prewarm_now() AS now
), sent AS MATERIALIZED (
  SELECT unnest(@claim_ids::uuid[]) AS claim_id, unnest(@preset_ids::uuid[]) AS preset_id,
         unnest(@user_ids::uuid[]) AS user_id, nullif(unnest(@idempotency_keys::text[]), '') AS key,
         unnest((@modes::text[])::claim_mode[]) AS mode, unnest(@sources::text[]) AS source
), asked AS MATERIALIZED (
  SELECT s.claim_id, s.preset_id, s.user_id, s.key, s.mode, s.source,
         row_number() OVER (PARTITION BY s.preset_id) AS place
  FROM sent s
  WHERE s.key IS NULL
     OR NOT (SELECT count(*) > 0 FROM claims c WHERE c.user_id = s.user_id AND c.idempotency_key = s.key)
), pools AS MATERIALIZED (
  SELECT p.id, p.pool_key, p.min_remaining_s, f.floor, (SELECT count(*) FROM asked WHERE asked.preset_id = p.id) AS wanted
  FROM (SELECT unnest(@pools::uuid[]) AS preset_id, unnest(@floors::timestamptz[]) AS floor) f
  JOIN presets p ON p.id = f.preset_id
  JOIN templates t ON t.id = p.template_id
  WHERE p.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL
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
                      incarnation, created_at, bound_at)
  SELECT asked.claim_id, moved.organization_id, moved.preset_id, asked.user_id, asked.key, asked.mode, 'bound', 'hit',
         moved.id, moved.incarnation, moved.claimed_at, moved.claimed_at
  FROM moved JOIN asked ON asked.claim_id = moved.claim_id
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
  SELECT p.pool_key, p.min_remaining_s, t.keep_outdated FROM presets p JOIN templates t ON t.id = p.template_id
  WHERE p.id = @preset_id AND p.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL
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
                      incarnation, created_at, bound_at)
  SELECT @claim_id::uuid, moved.organization_id, moved.preset_id, @user_id, sqlc.narg(idempotency_key), @mode, 'bound',
         'hit', moved.id, moved.incarnation, prewarm_now(), prewarm_now()
  FROM moved
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

-- name: InsertMiss :exec
-- A miss is recorded for the hit rate, without its key: the same key may try again.
INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, reason, created_at)
VALUES (@id, @organization_id, @preset_id, @user_id, @mode, 'missed', 'miss', @reason, prewarm_now());

-- name: InsertWaiting :exec
-- A waiter stands in line from its commit on; passes count it (C5), transitions to ready bind the oldest.
INSERT INTO claims (id, organization_id, preset_id, user_id, idempotency_key, mode, state, created_at, deadline_at)
VALUES (@id, @organization_id, @preset_id, @user_id, sqlc.narg(idempotency_key), 'prefer', 'waiting', prewarm_now(),
        prewarm_now() + sqlc.arg(wait_s)::double precision * interval '1 second');

-- name: BindOldest :many
-- Binds the oldest waiting claim of the preset to the oldest ready workspace; no row if either is lacking.
WITH pool AS (
  SELECT p.pool_key, p.min_remaining_s, t.keep_outdated FROM presets p JOIN templates t ON t.id = p.template_id
  WHERE p.id = @preset_id AND p.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL
), waiter AS (
  SELECT c.id, c.user_id FROM claims c
  WHERE c.preset_id = @preset_id AND c.state = 'waiting' AND c.deadline_at > prewarm_now()
  ORDER BY c.created_at, c.id
  LIMIT 1
  FOR NO KEY UPDATE -- waits for whoever is at the head of the line; to skip it would be to overtake it
), picked AS (
  SELECT w.id FROM workspaces w
  WHERE w.state = 'ready' AND w.preset_id = @preset_id
    AND (w.pool_key = (SELECT pool.pool_key FROM pool) OR (SELECT pool.keep_outdated FROM pool))
    AND (w.expires_at IS NULL OR w.expires_at > prewarm_now()
                                   + (SELECT pool.min_remaining_s FROM pool) * interval '1 second')
    AND (SELECT count(*) FROM waiter) > 0
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
  SET state = 'bound', outcome = 'waited', bound_at = prewarm_now(), workspace_id = moved.id,
      incarnation = moved.incarnation
  FROM moved
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

-- name: WaitOn :execrows
-- A retry takes up the place in line that its key has, for as long as it waits itself.
UPDATE claims
SET deadline_at = greatest(deadline_at, prewarm_now() + sqlc.arg(wait_s)::double precision * interval '1 second')
WHERE id = @id AND state = 'waiting';

-- name: EndWaiting :execrows
-- The waiter's time is up, or its client is gone. No row: it was bound meanwhile.
UPDATE claims
SET state = 'missed', outcome = 'miss', reason = @reason, idempotency_key = NULL
WHERE id = @id AND state = 'waiting';

-- name: EndExpiredWaiting :execrows
-- Waiters whose replica died with them: nobody counts them any more; this records the miss.
UPDATE claims
SET state = 'missed', outcome = 'miss', reason = 'the wait ended', idempotency_key = NULL
WHERE state = 'waiting' AND deadline_at < prewarm_now() - interval '30 seconds';

-- name: ClaimByID :one
SELECT * FROM claims WHERE id = @id;

-- name: ClaimByKey :one
SELECT * FROM claims WHERE user_id = @user_id AND idempotency_key = @idempotency_key;

-- name: PoolView :one
-- Why a claim found nothing warm: what the pool looks like to it.
SELECT p.template_id, p.instances, (p.deleted_at IS NOT NULL OR t.deleted_at IS NOT NULL)::boolean AS gone,
       (t.deprecated_at IS NOT NULL)::boolean AS deprecated,
       (SELECT count(*) FROM workspaces w WHERE w.preset_id = p.id AND w.template_id = p.template_id
          AND w.state NOT IN ('claimed', 'deleted') AND w.state IN ('provisioning', 'starting')
          AND w.pool_key = p.pool_key)::int AS starting,
       coalesce(f.streak, 0)::int AS failures, coalesce(f.last_error, '') AS last_error
FROM presets p
JOIN templates t ON t.id = p.template_id
LEFT JOIN preset_failures f ON f.preset_id = p.id AND f.pool_key = p.pool_key
WHERE p.id = @preset_id;
