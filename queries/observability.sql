-- What is told about the whole: gauges, traces. Nothing here locks, and nothing reads claimed or deleted workspaces but
-- the one that says so.

-- name: GaugePresets :many
-- The counts of rule C3 and the ledger, as the last pass over each preset stored them: a row for each preset that is
-- shown, however many workspaces there are.
SELECT p.id, p.organization_id, o.name AS organization, t.name AS template, p.name AS preset, p.pool_key,
       s.counts, s.ledger, (coalesce(s.error, '') <> '')::boolean AS has_error, coalesce(f.streak, 0)::int AS failure_streak,
       coalesce(z.unattainable, '') AS unattainable
FROM presets p
JOIN organizations o ON o.id = p.organization_id
JOIN templates t ON t.id = p.template_id
LEFT JOIN preset_status s ON s.preset_id = p.id
LEFT JOIN preset_failures f ON f.preset_id = p.id AND f.pool_key = p.pool_key
LEFT JOIN preset_sizes z ON z.preset_id = p.id AND p.autosize ->> 'mode' = 'apply'
  AND z.computed_at > prewarm_now() - interval '15 minutes'
WHERE p.deleted_at IS NULL AND t.deleted_at IS NULL;

-- name: GaugeClaimed :many
-- Claimed workspaces by preset: an index-only count over all of them, so asked rarely.
SELECT preset_id, count(*)::int AS claimed FROM workspaces WHERE state = 'claimed' GROUP BY preset_id;

-- name: GaugeJobs :many
-- The jobs that are not over, and for how long the one that has waited longest has been due.
SELECT kind, provider, count(*) FILTER (WHERE state = 'pending')::int AS pending,
       count(*) FILTER (WHERE state = 'running')::int AS running,
       greatest(0, coalesce(extract(epoch FROM prewarm_now() - min(due_at)), 0))::double precision AS overdue_s
FROM jobs
WHERE state IN ('pending', 'running')
GROUP BY kind, provider;

-- name: GaugePauses :many
-- What is paused, by the names that people know.
SELECT pa.scope,
       (CASE pa.scope WHEN 'template' THEN coalesce(t.name, pa.target)
                      WHEN 'preset' THEN coalesce(pt.name || '/' || p.name, pa.target)
                      ELSE pa.target END)::text AS target,
       coalesce(o.name, '') AS organization
FROM pauses pa
LEFT JOIN templates t ON pa.scope = 'template' AND t.id::text = pa.target
LEFT JOIN presets p ON pa.scope = 'preset' AND p.id::text = pa.target
LEFT JOIN templates pt ON pt.id = p.template_id
LEFT JOIN organizations o ON o.id = coalesce(t.organization_id, p.organization_id)
WHERE pa.expires_at IS NULL OR pa.expires_at > prewarm_now();

-- name: SetTraceparent :exec
-- Every job that this transaction inserts belongs to that trace (see migration 00008).
SELECT set_config('prewarm.traceparent', @traceparent::text, true);
