-- What is paused (C10), and which templates a scope covers. Target is a provider's name, a template's id or a preset's id.

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

-- name: TemplatesInScope :many
-- Which templates need a pass when something of that scope changes.
SELECT DISTINCT t.id FROM templates t
LEFT JOIN presets p ON p.template_id = t.id AND p.deleted_at IS NULL
WHERE t.deleted_at IS NULL
  AND (@scope::pause_scope = 'global' OR (@scope::pause_scope = 'provider' AND t.provider = @target::text)
       OR (@scope::pause_scope = 'template' AND t.id::text = @target::text)
       OR (@scope::pause_scope = 'preset' AND p.id::text = @target::text));
