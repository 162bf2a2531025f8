-- Who pauses what (C10). Target is a provider's name, a template's id or a preset's id.

-- name: LockPause :one
SELECT reason, expires_at FROM pauses WHERE scope = @scope AND target = @target FOR NO KEY UPDATE;

-- name: UpsertPause :one
INSERT INTO pauses (id, scope, target, reason, created_at, created_by, expires_at)
VALUES (@id, @scope, @target, @reason, prewarm_now(), @created_by,
        prewarm_now() + sqlc.narg(expires_in_s)::double precision * interval '1 second')
ON CONFLICT (scope, target) DO UPDATE
  SET reason = excluded.reason, created_at = excluded.created_at, created_by = excluded.created_by,
      expires_at = excluded.expires_at
RETURNING created_at, expires_at;

-- name: DeletePause :execrows
DELETE FROM pauses WHERE scope = @scope AND target = @target;
