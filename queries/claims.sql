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

-- name: InsertMiss :exec
-- A miss is recorded for the hit rate, without its key: the same key may try again.
INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, reason, reason_code, created_at)
VALUES (@id, @organization_id, @preset_id, @user_id, @mode, 'missed', 'miss', @reason, @reason_code, prewarm_now());

-- name: InsertWaiting :execrows
-- Waiters stand in line from their commit on; passes count them (C5), transitions to ready bind the oldest. Those that
-- are one request have a group, are bound together, and have their key on the first. None where more of the user would wait
-- than may, in all or for one built for them (0: as many as they like). Requests that come at the same moment do not see each
-- other, and so may be a few more.
INSERT INTO claims (id, organization_id, preset_id, user_id, idempotency_key, mode, state, created_at, deadline_at, cold,
                    group_id, lease_s)
SELECT x.id, @organization_id, @preset_id, @user_id,
       CASE WHEN x.id = (@ids::uuid[])[1] THEN sqlc.narg(idempotency_key)::text END, @mode, 'waiting', prewarm_now(),
       prewarm_now() + sqlc.arg(wait_s)::double precision * interval '1 second', @cold::boolean, sqlc.narg(group_id)::uuid,
       sqlc.narg(lease_s)::integer
FROM (SELECT unnest(@ids::uuid[]) AS id) x
WHERE (@max_waiting::int = 0 OR @max_waiting >= cardinality(@ids)
       + (SELECT count(*) FROM claims c WHERE c.user_id = @user_id AND c.state = 'waiting'))
  AND (NOT @cold OR @max_cold::int = 0 OR @max_cold >= cardinality(@ids)
       + (SELECT count(*) FROM claims c WHERE c.user_id = @user_id AND c.state = 'waiting' AND c.cold));

-- name: WaitingOf :one
SELECT count(*)::int AS waiting, (count(*) FILTER (WHERE cold))::int AS cold
FROM claims WHERE user_id = @user_id AND state = 'waiting';

-- name: BindOldest :many
-- Binds the oldest waiting claim of the preset to the oldest ready workspace; no row if either is lacking. A claim that
-- wants a workspace built for it is passed over while there is none that was planned after it came; those of a group
-- are bound together (BindTogether).
WITH pool AS (
  SELECT p.pool_key, p.min_remaining_s, t.keep_outdated, t.claim_lease_s
  FROM presets p JOIN templates t ON t.id = p.template_id
  WHERE p.id = @preset_id AND p.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL
    AND p.forge_entity_id IS NULL
), waiter AS (
  SELECT c.id, c.user_id, c.cold, c.created_at, c.lease_s FROM claims c
  WHERE c.preset_id = @preset_id AND c.state = 'waiting' AND c.deadline_at > prewarm_now() AND c.group_id IS NULL
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
-- order, so that two requests that each have some never wait for each other's.
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

-- name: LockWaiting :many
-- The claims of these that still wait, for who binds or ends them together.
SELECT c.id, c.created_at FROM claims c WHERE c.id = ANY (@ids::uuid[]) AND c.state = 'waiting'
ORDER BY c.id FOR NO KEY UPDATE;

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

-- name: ClaimsTogether :many
-- All claims of one request, the first of which has that id.
SELECT * FROM claims WHERE group_id = @group_id ORDER BY id;

-- name: EndWaitingTogether :execrows
UPDATE claims
SET state = 'missed', outcome = 'miss', reason = @reason, reason_code = @reason_code, idempotency_key = NULL
WHERE id = ANY (@ids::uuid[]) AND state = 'waiting';

-- name: WaitOn :execrows
-- A retry takes up the place in line that its key has, for as long as it waits itself.
UPDATE claims
SET deadline_at = greatest(deadline_at, prewarm_now() + sqlc.arg(wait_s)::double precision * interval '1 second')
WHERE (id = @id::uuid OR group_id = @id::uuid) AND state = 'waiting';

-- name: EndWaiting :execrows
-- The waiter's time is up, or its client is gone. No row: it was bound meanwhile.
UPDATE claims
SET state = 'missed', outcome = 'miss', reason = @reason, reason_code = @reason_code, idempotency_key = NULL
WHERE id = @id AND state = 'waiting';

-- name: EndExpiredWaiting :execrows
-- Waiters whose client is gone, or whose replica died with them: nobody counts them any more; this records the miss. A
-- replica ends the waits of its own clients, and has five seconds for it, since it knows why there was no workspace.
UPDATE claims
SET state = 'missed', outcome = 'miss', reason = 'the wait ended', reason_code = 'wait_ended', idempotency_key = NULL
WHERE state = 'waiting' AND deadline_at < prewarm_now() - interval '5 seconds';

-- name: ClaimByID :one
SELECT * FROM claims WHERE id = @id;

-- name: ClaimByKey :one
SELECT * FROM claims WHERE user_id = @user_id AND idempotency_key = @idempotency_key;

-- name: PoolView :one
-- Why a claim found nothing warm: what the pool looks like to it.
SELECT p.template_id, (p.instances IS NOT NULL)::boolean AS pool, d.desired, (p.deleted_at IS NOT NULL OR t.deleted_at IS NOT NULL)::boolean AS gone,
       (t.deprecated_at IS NOT NULL)::boolean AS deprecated,
       (SELECT count(*) FROM unclaimed_workspaces w
        WHERE w.preset_id = p.id AND w.template_id = p.template_id AND w.class = 'starting')::int AS starting,
       EXISTS (SELECT FROM workspaces w WHERE w.state = 'standby' AND w.preset_id = p.id) AS standby,
       coalesce(f.streak, 0)::int AS failures, coalesce(f.last_error, '') AS last_error, p.metered,
       (p.forge_entity_id IS NOT NULL)::boolean AS runners,
       coalesce((SELECT e.name FROM forge_entities e WHERE e.id = p.forge_entity_id), '')::text AS forge, p.name AS preset,
       t.name AS template,
       (v.agent IS NOT NULL)::boolean AS has_agent, coalesce(v.provider, '')::text AS provider
FROM presets p
JOIN templates t ON t.id = p.template_id
LEFT JOIN template_versions v ON v.id = t.active_version_id
JOIN desired_prebuilds d ON d.preset_id = p.id
LEFT JOIN preset_failures f ON f.preset_id = p.id AND f.pool_key = p.pool_key
WHERE p.id = @preset_id;

-- name: QuotaOf :one
-- The limits that hold for claims of a preset, each null where there is none.
SELECT t.id AS template_id, t.name AS template, o.name AS organization, t.max_claimed, t.max_claimed_per_user,
       o.max_claimed AS organization_max_claimed, o.max_claimed_per_user AS organization_max_claimed_per_user
FROM presets p
JOIN templates t ON t.id = p.template_id
JOIN organizations o ON o.id = p.organization_id
WHERE p.id = @preset_id;

-- name: LockQuotas :exec
-- Held to the end of the transaction by who counts against these limits: two claims that the same limit holds for are
-- counted one after the other. In one order, so that nobody waits for who waits for him.
SELECT pg_advisory_xact_lock(1886545272, k.key)
FROM (SELECT DISTINCT hashtext(x.name) AS key FROM (SELECT unnest(@names::text[]) AS name) x ORDER BY 1) k;

-- name: CountClaimed :one
-- Workspaces that are claimed, and claims that wait for one: of a template or of a whole organization.
SELECT ((SELECT count(*) FROM workspaces w
         WHERE w.state = 'claimed' AND w.preset_id = ANY (
             ARRAY(SELECT p.id FROM presets p WHERE p.organization_id = @organization_id
                     AND (sqlc.narg(template_id)::uuid IS NULL OR p.template_id = sqlc.narg(template_id)::uuid))))
      + (SELECT count(*) FROM claims c
         WHERE c.state = 'waiting' AND c.deadline_at > prewarm_now() AND c.preset_id = ANY (
             ARRAY(SELECT p.id FROM presets p WHERE p.organization_id = @organization_id
                     AND (sqlc.narg(template_id)::uuid IS NULL OR p.template_id = sqlc.narg(template_id)::uuid)))))::int AS n;

-- name: CountClaimedOf :one
-- The same of one user, by what the user has and not by what the template has.
SELECT ((SELECT count(*) FROM workspaces w
         WHERE w.state = 'claimed' AND w.owner_id = @user_id AND w.organization_id = @organization_id
           AND (sqlc.narg(template_id)::uuid IS NULL OR w.template_id = sqlc.narg(template_id)::uuid))
      + (SELECT count(*) FROM claims c JOIN presets p ON p.id = c.preset_id
         WHERE c.state = 'waiting' AND c.deadline_at > prewarm_now() AND c.user_id = @user_id
           AND c.organization_id = @organization_id
           AND (sqlc.narg(template_id)::uuid IS NULL OR p.template_id = sqlc.narg(template_id)::uuid)))::int AS n;

-- name: ClaimHook :one
-- How far the agent is with a claim that holds its workspace; no row if it does not hold it (any more).
SELECT (v.agent IS NOT NULL)::boolean AS has_agent, coalesce(a.status, 'expected')::agent_status AS status,
       coalesce(a.message, '') AS message, coalesce(a.claim_id = c.id, false)::boolean AS seen,
       coalesce(extract(epoch FROM a.claim_seen_at - c.bound_at) * 1000, 0)::double precision AS told_ms,
       coalesce(extract(epoch FROM a.claim_ready_at - a.claim_seen_at) * 1000, 0)::double precision AS hook_ms
FROM claims c
JOIN workspaces w ON w.id = c.workspace_id AND w.incarnation = c.incarnation AND w.claim_id = c.id AND w.state = 'claimed'
JOIN template_versions v ON v.id = w.template_version_id
LEFT JOIN agents a ON a.workspace_id = w.id AND a.incarnation = w.incarnation
WHERE c.id = @claim_id AND c.state = 'bound';

-- name: FreeKey :exec
-- The key is to be had again: what it was given was of no use.
UPDATE claims SET idempotency_key = NULL WHERE id = @claim_id AND state <> 'bound' AND idempotency_key IS NOT NULL;

-- name: FreeOldKeys :execrows
-- Keys of released claims are kept for a day: a retry within it finds what it was given. Those of claims that hold a
-- workspace stay for as long as they do.
UPDATE claims c SET idempotency_key = NULL
WHERE c.id = ANY (ARRAY(
  SELECT o.id FROM claims o
  WHERE o.state = 'released' AND o.idempotency_key IS NOT NULL
    AND o.released_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
  ORDER BY o.released_at LIMIT @batch FOR UPDATE SKIP LOCKED));

-- name: RenewLease :one
-- Only of a claim that holds its workspace, by the lease it had unless another is asked for. No row: it is over, or it
-- has no lease and none was asked for.
UPDATE claims c
SET lease_s = coalesce(sqlc.narg(lease_s)::integer, c.lease_s),
    lease_until = prewarm_now() + coalesce(sqlc.narg(lease_s)::integer, c.lease_s) * interval '1 second'
WHERE c.id = @claim_id AND c.state = 'bound' AND coalesce(sqlc.narg(lease_s)::integer, c.lease_s) IS NOT NULL
RETURNING c.lease_until;

-- name: EndedLeases :many
-- Claims whose lease is over, by their index, those that are over for longest first.
SELECT c.id, c.workspace_id, c.incarnation, c.lease_s FROM claims c
WHERE c.state = 'bound' AND c.lease_until IS NOT NULL AND c.lease_until <= prewarm_now()
ORDER BY c.lease_until
LIMIT @max_claims;

-- name: LeaseOver :one
-- Asked again in the transaction that ends it, after the workspace is locked: whoever renewed it in between keeps it, and
-- whoever wants to renew it now waits and finds it over.
SELECT c.id FROM workspaces w
JOIN claims c ON c.id = w.claim_id AND c.state = 'bound'
WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'claimed'
  AND c.lease_until IS NOT NULL AND c.lease_until <= prewarm_now()
FOR NO KEY UPDATE OF c;

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
