-- Claims that wait, and claims that were missed. What binds a claim to a workspace is in queries/workspaces.

-- name: InsertMiss :exec
-- A miss is recorded for the hit rate, without its key: the same key may try again.
INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, reason, reason_code, created_at)
VALUES (@id, @organization_id, @preset_id, @user_id, @mode, 'missed', 'miss', @reason, @reason_code, prewarm_now());

-- name: InsertWaiting :execrows
-- Waiters stand in line from their commit on; passes count them (C5), transitions to ready bind the oldest. Those that
-- are one request have a group, are bound together, and have their key on the first. None where more of the user would wait
-- than may, in all or for one built for them (0: as many as they like). Requests that come at the same moment do not see each
-- other, and so may be a few more.
--
-- Where the user's claim before lost its workspace (ClaimLost), this one is as old as that, and so is served first, unless another
-- has taken its place already. Claims of a group stand in no line, and one built for them must be younger than the claim.
WITH again AS (
  UPDATE lost_claims l SET taken_by = (@ids::uuid[])[1]
  WHERE l.claim_id = (
    SELECT o.claim_id FROM lost_claims o
    WHERE o.user_id = @user_id AND o.preset_id = @preset_id AND o.lost_at > prewarm_now() - interval '1 hour'
      AND sqlc.narg(group_id)::uuid IS NULL AND NOT @cold::boolean
      AND NOT EXISTS (SELECT FROM claims c WHERE c.id = o.taken_by AND c.state <> 'missed')
    ORDER BY o.created_at LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING l.created_at
)
INSERT INTO claims (id, organization_id, preset_id, user_id, idempotency_key, mode, state, created_at, deadline_at, cold,
                    group_id, lease_s)
SELECT x.id, @organization_id, @preset_id, @user_id,
       CASE WHEN x.id = (@ids::uuid[])[1] THEN sqlc.narg(idempotency_key)::text END, @mode, 'waiting',
       coalesce((SELECT again.created_at FROM again), prewarm_now()),
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

-- name: LockWaiting :many
-- The claims of these that still wait, for who binds or ends them together.
SELECT c.id, c.created_at FROM claims c WHERE c.id = ANY (@ids::uuid[]) AND c.state = 'waiting'
ORDER BY c.id FOR NO KEY UPDATE;

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
SET asked_again_at = prewarm_now(),
    deadline_at = greatest(deadline_at, prewarm_now() + sqlc.arg(wait_s)::double precision * interval '1 second')
WHERE (id = @id::uuid OR group_id = @id::uuid) AND state = 'waiting';

-- name: EndWaiting :execrows
-- The waiter's time is up, or its client is gone. No row: it was bound meanwhile, or is another request's too (unasked).
UPDATE claims
SET state = 'missed', outcome = 'miss', reason = @reason, reason_code = @reason_code, idempotency_key = NULL
WHERE id = @id AND state = 'waiting' AND NOT (@unasked::boolean AND asked_again_at IS NOT NULL);

-- name: AskAgain :execrows
-- A request with the claim's key is about to be answered with it. No row: it was taken back just now, or has ended.
UPDATE claims SET asked_again_at = prewarm_now() WHERE id = @id AND state = 'bound' AND idempotency_key IS NOT NULL;

-- name: ClaimByID :one
SELECT * FROM claims WHERE id = @id;

-- name: ClaimByKey :one
SELECT * FROM claims WHERE user_id = @user_id AND idempotency_key = @idempotency_key;

-- name: QuotasOf :many
-- The limits that hold for claims of a preset, and what counts against each: workspaces that are claimed and claims that
-- wait for one. A user's is what the user has, the other all that the template or the organization has.
SELECT t.id AS template_id, t.name AS template, o.name AS organization, l.of_template::boolean AS of_template,
       l.of_user::boolean AS of_user, l.maximum::int AS maximum,
       (CASE WHEN l.of_user
        THEN (SELECT count(*) FROM workspaces w
              WHERE w.state = 'claimed' AND w.owner_id = @user_id AND w.organization_id = o.id
                AND (NOT l.of_template OR w.template_id = t.id))
           + (SELECT count(*) FROM claims c JOIN presets s ON s.id = c.preset_id
              WHERE c.state = 'waiting' AND c.deadline_at > prewarm_now() AND c.user_id = @user_id
                AND c.organization_id = o.id AND (NOT l.of_template OR s.template_id = t.id))
        ELSE (SELECT count(*) FROM workspaces w
              WHERE w.state = 'claimed' AND w.preset_id = ANY (ARRAY(
                SELECT s.id FROM presets s WHERE s.organization_id = o.id AND (NOT l.of_template OR s.template_id = t.id))))
           + (SELECT count(*) FROM claims c
              WHERE c.state = 'waiting' AND c.deadline_at > prewarm_now() AND c.preset_id = ANY (ARRAY(
                SELECT s.id FROM presets s WHERE s.organization_id = o.id AND (NOT l.of_template OR s.template_id = t.id))))
        END)::int AS has
FROM presets p
JOIN templates t ON t.id = p.template_id
JOIN organizations o ON o.id = p.organization_id
CROSS JOIN LATERAL (VALUES
  (true, true, t.max_claimed_per_user), (true, false, t.max_claimed),
  (false, true, o.max_claimed_per_user), (false, false, o.max_claimed)
) l (of_template, of_user, maximum)
WHERE p.id = @preset_id AND l.maximum IS NOT NULL
ORDER BY l.of_template DESC, l.of_user DESC;

-- name: LockQuotas :exec
-- Held to the end of the transaction by who counts against these limits: two claims that the same limit holds for are
-- counted one after the other. In one order, so that nobody waits for who waits for him.
SELECT pg_advisory_xact_lock(1886545272, k.key)
FROM (SELECT DISTINCT hashtext(x.name) AS key FROM (SELECT unnest(@names::text[]) AS name) x ORDER BY 1) k;

-- name: ClaimHook :one
-- How far the agent is with a claim that holds its workspace; no row if it does not hold it (any more).
SELECT (v.agent IS NOT NULL)::boolean AS has_agent, coalesce(a.status, 'expected')::agent_status AS status,
       coalesce(a.message, '') AS message, coalesce(a.claim_id = c.id, false)::boolean AS seen,
       coalesce(extract(epoch FROM a.claim_seen_at - c.bound_at) * 1000, 0)::double precision AS told_ms,
       coalesce(extract(epoch FROM a.claim_ready_at - a.claim_seen_at) * 1000, 0)::double precision AS hook_ms,
       -- Of a handover that the owner waits for, how it stands.
       coalesce((SELECT j.state::text FROM jobs j
                 WHERE j.workspace_id = w.id AND j.incarnation = w.incarnation AND j.kind = 'handover'
                   AND v.spec ->> 'apply_on_claim' = 'before' ORDER BY j.created_at DESC LIMIT 1), '')::text AS handover, w.fault, w.addresses, w.environment
FROM claims c
JOIN workspaces w ON w.id = c.workspace_id AND w.incarnation = c.incarnation AND w.claim_id = c.id AND w.state = 'claimed'
JOIN template_versions v ON v.id = w.template_version_id
LEFT JOIN agents a ON a.workspace_id = w.id AND a.incarnation = w.incarnation
WHERE c.id = @claim_id AND c.state = 'bound';

-- name: FreeKey :exec
-- The key is to be had again: what it was given was of no use.
UPDATE claims SET idempotency_key = NULL WHERE id = @claim_id AND state <> 'bound' AND idempotency_key IS NOT NULL;

-- name: StartOf :one
-- How far a workspace that was claimed out of standby is: starting while its job is not over, and its fault if it failed.
SELECT (j.id IS NOT NULL)::boolean AS starting, w.fault
FROM workspaces w
LEFT JOIN jobs j ON j.workspace_id = w.id AND j.state IN ('pending', 'running') AND j.kind IN ('start', 'probe')
WHERE w.id = @workspace_id AND w.state = 'claimed';
