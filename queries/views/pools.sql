-- What the page of pools shows: all of a page in two statements, however many workspaces there are. Nothing here locks.

-- name: PoolViews :many
-- A page of presets in the order of their names, after (after_template, after_preset), or those of `ids`; and of each its
-- unclaimed workspaces by what a slot of it shows. The classes are C3's; what is expired, draining or
-- deleting is on its way out. The counts are lateral: a page reads the index entries of its presets and of no others.
WITH page AS MATERIALIZED (
  SELECT p.id FROM presets p JOIN templates t ON t.id = p.template_id
  WHERE p.organization_id = @organization_id AND p.deleted_at IS NULL AND t.deleted_at IS NULL
    AND (sqlc.narg(ids)::uuid[] IS NULL OR p.id = ANY (sqlc.narg(ids)::uuid[]))
    AND (t.name, p.name) > (@after_template::text, @after_preset::text)
  ORDER BY t.name, p.name LIMIT @max_pools
)
SELECT p.id, t.name AS template, p.name AS preset, coalesce(v.number, 0)::int AS version, t.provider,
       (p.instances IS NOT NULL)::boolean AS pool, coalesce(p.instances, 0)::int AS instances, p.schedule,
       (p.forge_entity_id IS NOT NULL)::boolean AS runners,
       prewarm_now()::timestamptz AS now,
       d.desired,
       coalesce(u.actual, 0)::int AS actual, coalesce(u.starting, 0)::int AS starting,
       coalesce(u.leaving, 0)::int AS leaving, coalesce(u.outdated, 0)::int AS outdated,
       coalesce(u.quarantined, 0)::int AS quarantined, coalesce(u.stopped, 0)::int AS stopped,
       t.idle_cost_per_hour, coalesce(t.stopped_cost_per_hour, t.idle_cost_per_hour)::double precision AS stopped_cost_per_hour,
       coalesce(c.n, 0)::int AS claimed, coalesce(q.n, 0)::int AS waiting,
       coalesce(f.streak, 0)::int AS failures, coalesce(f.last_error, '') AS last_error,
       coalesce(s.ledger, 'null')::jsonb AS ledger, coalesce(s.error, '') AS error,
       coalesce(pause.scope::text, '')::text AS paused_scope, coalesce(pause.reason, '')::text AS paused_reason
FROM presets p
JOIN templates t ON t.id = p.template_id
LEFT JOIN template_versions v ON v.id = t.active_version_id
LEFT JOIN preset_status s ON s.preset_id = p.id
LEFT JOIN preset_failures f ON f.preset_id = p.id AND f.pool_key = p.pool_key
JOIN desired_prebuilds d ON d.preset_id = p.id
LEFT JOIN LATERAL (
  SELECT count(*) FILTER (WHERE w.class = 'actual') AS actual, count(*) FILTER (WHERE w.class = 'starting') AS starting,
         count(*) FILTER (WHERE w.class IN ('expired', 'stopping', 'deleting')) AS leaving,
         count(*) FILTER (WHERE w.class = 'outdated') AS outdated,
         count(*) FILTER (WHERE w.class = 'quarantined') AS quarantined,
         count(*) FILTER (WHERE w.class IN ('actual', 'outdated') AND w.state = 'standby') AS stopped
  FROM unclaimed_workspaces w
  WHERE w.template_id = p.template_id AND w.preset_id = p.id
) u ON true
LEFT JOIN LATERAL (
  SELECT count(*) AS n FROM workspaces w WHERE w.preset_id = p.id AND w.state = 'claimed'
) c ON true
LEFT JOIN LATERAL (
  SELECT count(*) AS n FROM claims x WHERE x.preset_id = p.id AND x.state = 'waiting' AND x.deadline_at > prewarm_now()
) q ON true
LEFT JOIN preset_pauses pause ON pause.preset_id = p.id
WHERE p.id = ANY (ARRAY(SELECT page.id FROM page))
ORDER BY t.name, p.name;

-- name: PoolHours :many
-- The requests for workspaces of presets by the hour, over the last 24: hour 0 is the one that lasts now. From the buckets that autosize
-- counts each minute, and of what came after it, up to fifty claims of each: so the first one is seen at once, and a page
-- costs no more under a storm.
SELECT c.preset_id,
       floor(extract(epoch FROM prewarm_now() - c.at) / 3600)::int AS hours_ago,
       sum(c.requests)::int AS claims, sum(c.hits)::int AS hits
FROM (
  SELECT h.preset_id, h.bucket AS at, coalesce(h.requests, h.claims) AS requests, coalesce(h.request_hits, h.hits) AS hits
  FROM claim_history h
  WHERE h.preset_id = ANY (@ids::uuid[]) AND h.bucket > prewarm_now() - interval '24 hours' AND h.claims > 0
  UNION ALL
  SELECT p.id, x.created_at, 1, CASE WHEN x.outcome = 'hit' THEN 1 ELSE 0 END
  FROM presets p
  CROSS JOIN autosize_progress a
  CROSS JOIN LATERAL (
    SELECT n.created_at, n.outcome, n.mode, (n.group_id IS NULL OR n.group_id = n.id) AS first FROM claims n
    WHERE n.preset_id = p.id AND n.created_at > greatest(a.counted_through, prewarm_now() - interval '24 hours')
    ORDER BY n.created_at LIMIT 50
  ) x
  WHERE p.id = ANY (@ids::uuid[]) AND p.instances IS NOT NULL AND x.mode::text <> 'bypass' AND x.first
) c
GROUP BY 1, 2;
