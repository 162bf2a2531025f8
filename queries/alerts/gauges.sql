-- What is told about the whole: gauges. Nothing here locks, and nothing reads claimed or deleted workspaces but the one
-- that says so.

-- name: MissingClaimed :many
-- Claimed workspaces of which inventories agree that their provider has nothing any more (I2: nothing is done about them).
SELECT f.workspace_id, f.provider, f.detail, w.name, w.organization_id, t.name AS template, p.name AS preset
FROM inventory_findings f
JOIN workspaces w ON w.id = f.workspace_id AND w.state = 'claimed'
JOIN templates t ON t.id = w.template_id
JOIN presets p ON p.id = w.preset_id
WHERE f.verdict = 'claimed-missing' AND f.told_at IS NOT NULL
ORDER BY w.name;

-- name: GaugeFindings :many
SELECT provider, site, verdict, count(*)::int AS findings FROM inventory_findings GROUP BY provider, site, verdict;

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

-- name: ClaimedSpecs :many
-- What claimed workspaces were made of, and how many of each: a row for each pool key, which stands for one version and one
-- set of parameters. It reads all claimed workspaces, so it is asked rarely.
SELECT c.organization_id, o.name AS organization, c.preset_id, t.name AS template, p.name AS preset, c.provider, c.site,
       v.spec, c.parameters, c.claimed
FROM (
  SELECT organization_id, template_id, template_version_id, preset_id, pool_key, provider, site,
         (array_agg(parameters))[1]::jsonb AS parameters, count(*)::int AS claimed
  FROM workspaces WHERE state = 'claimed'
  GROUP BY organization_id, template_id, template_version_id, preset_id, pool_key, provider, site
) c
JOIN organizations o ON o.id = c.organization_id
JOIN templates t ON t.id = c.template_id
JOIN template_versions v ON v.id = c.template_version_id
JOIN presets p ON p.id = c.preset_id
ORDER BY c.preset_id, c.provider, c.site, c.pool_key;

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

-- name: GaugeForges :many
-- How it goes with each forge entity: a row for each. `up` is what its last round says. Jobs are counted by the entity
-- that they came by first, so each once.
WITH open AS MATERIALIZED (
  SELECT j.entity_id, count(*) FILTER (WHERE j.state = 'waiting') AS waiting,
         count(*) FILTER (WHERE j.state = 'queued') AS queued,
         count(*) FILTER (WHERE j.state = 'queued' AND j.preset_id IS NULL AND j.unserved <> '') AS unserved,
         count(*) FILTER (WHERE j.state = 'in_progress') AS in_progress,
         min(j.queued_at) FILTER (WHERE j.state = 'queued') AS oldest
  FROM forge_jobs j WHERE j.state <> 'completed' GROUP BY j.entity_id
)
SELECT e.name AS forge, (s.asked_at IS NOT NULL)::boolean AS asked, (coalesce(s.error, '') = '')::boolean AS up,
       coalesce(s.rate_limit, 0)::int AS rate_limit,
       (CASE WHEN s.rate_reset_at <= prewarm_now() THEN s.rate_limit
             ELSE coalesce(s.rate_remaining, 0) END)::int AS rate_remaining,
       coalesce(open.waiting, 0)::int AS waiting, coalesce(open.queued, 0)::int AS queued,
       coalesce(open.unserved, 0)::int AS unserved, coalesce(open.in_progress, 0)::int AS in_progress,
       greatest(0, coalesce(extract(epoch FROM prewarm_now() - open.oldest), 0))::double precision AS oldest_s
FROM forge_entities e
LEFT JOIN forge_status s ON s.entity_id = e.id
LEFT JOIN open ON open.entity_id = e.id
WHERE e.deleted_at IS NULL;

-- name: GaugeRunners :many
-- Runners that are registered or may come to be, by what their forge last said.
SELECT e.name AS forge, r.status, count(*)::int AS runners
FROM forge_runners r JOIN forge_entities e ON e.id = r.entity_id
WHERE r.removed_at IS NULL AND e.deleted_at IS NULL
GROUP BY e.name, r.status;
