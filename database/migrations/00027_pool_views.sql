-- What a pool is, told once for all who read it. The planner (coderd/prebuilds) decides by the same rules on rows of its own
-- snapshot; a test compares the two on random worlds (coderd/api/truth_test.go). Readers join these views and repeat nothing
-- of them. The binary before knows none of this and runs on.

-- +goose Up

-- Every unclaimed workspace in exactly one class (C3), tested in the order written, and whether a claim would take it now.
-- at_job: a runner that its forge, or the job itself, says is at a job without being claimed yet (P7). What a query does not
-- ask for, it does not pay for: PostgreSQL takes the view apart.
CREATE VIEW unclaimed_workspaces AS
SELECT w.id, w.preset_id, w.template_id, w.state,
       (CASE WHEN w.state = 'deleting' THEN 'deleting'
             WHEN w.state = 'draining' OR i.workspace_id IS NOT NULL THEN 'stopping'
             WHEN w.state = 'quarantined' THEN 'quarantined'
             WHEN w.pool_key <> p.pool_key THEN 'outdated'
             WHEN w.expires_at <= prewarm_now() + p.min_remaining_s * interval '1 second' THEN 'expired'
             WHEN w.state IN ('provisioning', 'starting') THEN 'starting'
             ELSE 'actual' END)::text AS class,
       (w.state IN ('ready', 'standby')
         AND (w.expires_at IS NULL OR w.expires_at > prewarm_now() + p.min_remaining_s * interval '1 second')
         AND (w.pool_key = p.pool_key OR t.keep_outdated)
         AND t.deprecated_at IS NULL AND t.deleted_at IS NULL AND p.deleted_at IS NULL)::boolean AS eligible,
       (p.forge_entity_id IS NOT NULL AND (
         EXISTS (SELECT FROM forge_runners r
                 WHERE r.workspace_id = w.id AND r.incarnation = w.incarnation AND r.status = 'active')
         OR EXISTS (SELECT FROM forge_runners r
                    JOIN forge_jobs j ON j.workspace_id = r.workspace_id AND j.incarnation = r.incarnation
                    WHERE r.workspace_id = w.id AND r.incarnation = w.incarnation
                      AND j.state = 'in_progress')))::boolean AS at_job
FROM workspaces w
JOIN presets p ON p.id = w.preset_id
JOIN templates t ON t.id = p.template_id
LEFT JOIN intents i ON i.workspace_id = w.id AND i.incarnation = w.incarnation
WHERE w.state NOT IN ('claimed', 'deleted');

-- How many prebuilds a preset should have (C4, C9, S4). What follows from its rows alone is current at once; what only a pass
-- can tell, by a schedule or by the machines that are unused, is what the last one made of it. takes_all: it should have all
-- that it has, and whatever comes back (`instances: all`, and no schedule's range in its place).
CREATE VIEW desired_prebuilds AS
SELECT p.id AS preset_id,
       (CASE WHEN t.deprecated_at IS NOT NULL OR t.deleted_at IS NOT NULL OR p.deleted_at IS NOT NULL THEN 0
             WHEN p.schedule IS NOT NULL OR p.all_machines THEN coalesce((s.counts ->> 'desired')::int, p.instances, 0)
             WHEN p.instances IS NULL THEN 0
             WHEN z.size IS NOT NULL
               THEN least(greatest(z.size, (p.autosize ->> 'min')::int), (p.autosize ->> 'max')::int)
             ELSE p.instances END)::int AS desired,
       (p.all_machines AND t.deprecated_at IS NULL AND t.deleted_at IS NULL AND p.deleted_at IS NULL
         AND (p.schedule IS NULL OR s.ledger #>> '{creates,0,rule}' IS DISTINCT FROM 'C9'))::boolean AS takes_all
FROM presets p
JOIN templates t ON t.id = p.template_id
LEFT JOIN preset_status s ON s.preset_id = p.id
LEFT JOIN preset_sizes z ON z.preset_id = p.id AND p.autosize ->> 'mode' = 'apply'
  AND z.computed_at > prewarm_now() - interval '15 minutes';

-- The pause that holds for each preset that has one, by the planner's precedence (C10).
CREATE VIEW preset_pauses AS
SELECT p.id AS preset_id, h.scope, h.reason, h.expires_at
FROM presets p
JOIN templates t ON t.id = p.template_id
CROSS JOIN LATERAL (
  SELECT pa.scope, pa.reason, pa.expires_at FROM pauses pa
  WHERE (pa.expires_at IS NULL OR pa.expires_at > prewarm_now())
    AND pa.target = CASE pa.scope WHEN 'global' THEN '' WHEN 'preset' THEN p.id::text
                                  WHEN 'template' THEN t.id::text ELSE t.provider END
  ORDER BY array_position('{global,preset,template,provider}'::text[], pa.scope::text) LIMIT 1
) h;
