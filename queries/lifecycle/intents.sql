-- What passes have decided and workers carry out, one by one: intents, moves between tiers, and ends of quarantine.

-- name: ExpiredQuarantine :many
-- Those that were kept for long enough, the longest first.
SELECT id, incarnation, template_id FROM workspaces
WHERE state = 'quarantined' AND expires_at <= prewarm_now()
ORDER BY expires_at LIMIT @max_workspaces;

-- name: DueMoves :many
-- The oldest moves, for a worker to carry out one by one.
SELECT workspace_id, incarnation, kind, reason FROM standby_moves ORDER BY created_at LIMIT @max_moves;

-- name: LockMove :many
-- No row: another replica is at it, or it is done. A transaction locks one move only, as with intents.
SELECT workspace_id FROM standby_moves
WHERE workspace_id = @workspace_id AND incarnation = @incarnation
FOR UPDATE SKIP LOCKED;

-- name: DeleteMove :exec
DELETE FROM standby_moves WHERE workspace_id = @workspace_id AND incarnation = @incarnation;

-- name: DueIntents :many
-- The oldest intents, for a worker to carry out one by one.
SELECT workspace_id, incarnation, kind, reason FROM intents ORDER BY created_at LIMIT @max_intents;

-- name: LockIntent :many
-- No row: another replica is at it, or it is done. A transaction locks one intent only, so that nobody who holds one
-- workspace ever waits for another.
SELECT workspace_id FROM intents
WHERE workspace_id = @workspace_id AND incarnation = @incarnation
FOR UPDATE SKIP LOCKED;

-- name: DeleteIntent :exec
DELETE FROM intents WHERE workspace_id = @workspace_id AND incarnation = @incarnation;
