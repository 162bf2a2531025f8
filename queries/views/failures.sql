-- What is known of failed creates (C8).

-- name: FailureCauses :many
-- The causes of a preset's failures, the latest first.
SELECT cause, count, permanent, first_at, last_at, last_fault, last_workspace, last_version
FROM preset_failure_causes WHERE preset_id = @preset_id ORDER BY last_at DESC, cause LIMIT @most;

-- name: FailureStreak :one
-- Of the pool as it is now; no row where the last create succeeded.
SELECT f.streak, f.permanent, f.first_at, f.last_at, f.last_error
FROM presets p JOIN preset_failures f ON f.preset_id = p.id AND f.pool_key = p.pool_key
WHERE p.id = @preset_id;
