-- The ways in which people begin anew after failed creates (C8).

-- name: ResetFailures :execrows
-- Ends the streaks of all versions of a preset.
DELETE FROM preset_failures WHERE preset_id = @preset_id;

-- name: RestartRollout :exec
-- The time that a version has to prove itself begins anew.
UPDATE presets SET rollout_at = prewarm_now(), updated_at = prewarm_now() WHERE id = @preset_id;
