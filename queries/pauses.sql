-- What is paused (C10). Target is a provider's name, a template's id or a preset's id.

-- name: Pauses :many
SELECT pa.scope,
       (CASE pa.scope WHEN 'template' THEN coalesce(t.name, pa.target)
                      WHEN 'preset' THEN coalesce(pt.name || '/' || p.name, pa.target)
                      ELSE pa.target END)::text AS target,
       pa.reason, pa.created_at, u.name AS created_by, pa.expires_at
FROM pauses pa
JOIN users u ON u.id = pa.created_by
LEFT JOIN templates t ON pa.scope = 'template' AND t.id::text = pa.target
LEFT JOIN presets p ON pa.scope = 'preset' AND p.id::text = pa.target
LEFT JOIN templates pt ON pt.id = p.template_id
WHERE (pa.expires_at IS NULL OR pa.expires_at > prewarm_now())
  AND coalesce(t.organization_id, p.organization_id, @organization_id::uuid) = @organization_id::uuid
ORDER BY pa.scope, 2;

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

-- name: TemplatesInScope :many
-- Which templates need a pass when something of that scope changes.
SELECT DISTINCT t.id FROM templates t
LEFT JOIN presets p ON p.template_id = t.id AND p.deleted_at IS NULL
WHERE t.deleted_at IS NULL
  AND (@scope::pause_scope = 'global' OR (@scope::pause_scope = 'provider' AND t.provider = @target::text)
       OR (@scope::pause_scope = 'template' AND t.id::text = @target::text)
       OR (@scope::pause_scope = 'preset' AND p.id::text = @target::text));
