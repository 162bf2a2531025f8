-- Versions of templates and how far they have come, as people see them. Nothing here locks or writes.

-- name: VersionPage :many
-- Without the specs, which may be long; the newest first, below before_number.
SELECT v.id, v.number, v.hash, (v.id = t.active_version_id)::boolean AS active, v.provider, v.created_at,
       u.name AS created_by
FROM template_versions v
JOIN templates t ON t.id = v.template_id
JOIN users u ON u.id = v.created_by
WHERE v.template_id = @template_id
  AND (sqlc.narg(before_number)::int IS NULL OR v.number < sqlc.narg(before_number)::int)
ORDER BY v.number DESC
LIMIT @max_versions;

-- name: VersionNumbered :one
SELECT v.id, v.number, v.hash, (v.id = t.active_version_id)::boolean AS active, v.provider, v.spec, v.agent, v.created_at,
       u.name AS created_by
FROM template_versions v
JOIN templates t ON t.id = v.template_id
JOIN users u ON u.id = v.created_by
WHERE v.template_id = @template_id AND v.number = @number;

-- name: VersionSlots :many
-- The workspaces of a template by preset and version, each in one class; the classes are those of PoolViews. A prebuild of
-- the active version is outdated, too, where its preset was invalidated or has other parameters now. The presets of a
-- template are few, and each half reads the index that is its own.
SELECT x.preset_id, v.number,
       count(*) FILTER (WHERE x.class = 'actual')::int AS ready, count(*) FILTER (WHERE x.class = 'outdated')::int AS outdated,
       count(*) FILTER (WHERE x.class = 'starting')::int AS starting, count(*) FILTER (WHERE x.class = 'leaving')::int AS leaving,
       count(*) FILTER (WHERE x.class = 'quarantined')::int AS failed, count(*) FILTER (WHERE x.class = 'claimed')::int AS claimed
FROM (
  SELECT w.preset_id, w.template_version_id,
         CASE WHEN w.state IN ('deleting', 'draining') OR i.workspace_id IS NOT NULL THEN 'leaving'
              WHEN w.state = 'quarantined' THEN 'quarantined'
              WHEN w.pool_key <> p.pool_key THEN 'outdated'
              WHEN w.expires_at <= prewarm_now() + p.min_remaining_s * interval '1 second' THEN 'leaving'
              WHEN w.state IN ('provisioning', 'starting') THEN 'starting'
              ELSE 'actual' END AS class
  FROM workspaces w
  JOIN presets p ON p.id = w.preset_id
  LEFT JOIN intents i ON i.workspace_id = w.id AND i.incarnation = w.incarnation
  WHERE w.template_id = @template_id AND w.state NOT IN ('claimed', 'deleted')
  UNION ALL
  SELECT w.preset_id, w.template_version_id, 'claimed' FROM workspaces w
  WHERE w.state = 'claimed' AND w.preset_id = ANY (ARRAY(SELECT p.id FROM presets p WHERE p.template_id = @template_id))
) x
JOIN template_versions v ON v.id = x.template_version_id
GROUP BY x.preset_id, v.number
ORDER BY x.preset_id, v.number DESC;

-- name: RolloutsOf :many
-- The presets of a template: since when its pool is what it is, and whether one of it was ever ready.
SELECT p.id, p.rollout_at, (proof.preset_id IS NOT NULL)::boolean AS proven
FROM presets p
LEFT JOIN pool_proofs proof ON proof.preset_id = p.id AND proof.pool_key = p.pool_key
WHERE p.template_id = @template_id AND p.deleted_at IS NULL
ORDER BY p.name;

-- name: VersionBefore :one
-- Where a rollback goes: to the version that was active before, else to the one made before.
SELECT v.* FROM template_versions v
JOIN templates t ON t.id = v.template_id
JOIN template_versions now_active ON now_active.id = t.active_version_id
WHERE t.id = @template_id AND v.id <> now_active.id AND (v.id = t.previous_version_id OR v.number < now_active.number)
ORDER BY (v.id = t.previous_version_id) DESC NULLS LAST, v.number DESC
LIMIT 1;
