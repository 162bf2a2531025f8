-- What pools looked like over time, and how long states usually last: for charts and for people. See migration 00022.

-- name: PresetSamples :many
-- The samples of a preset from an instant on, in order.
SELECT bucket, desired, ready, starting, claimed FROM preset_samples
WHERE preset_id = @preset_id AND bucket >= sqlc.arg(since)::timestamptz ORDER BY bucket;

-- name: StateDurations :many
-- How long the latest workspaces of a preset were in each state: the median and the 95th percentile, in seconds, and of how
-- many. What a workspace is in still does not count. `most` of those that are there unclaimed, of those claimed, and of the
-- last that were deleted within the week in which they are kept.
WITH latest AS MATERIALIZED (
  (SELECT w.id, w.created_at FROM workspaces w
   WHERE w.template_id = @template_id AND w.preset_id = @preset_id AND w.state NOT IN ('claimed', 'deleted') LIMIT @most)
  UNION ALL
  (SELECT w.id, w.created_at FROM workspaces w WHERE w.preset_id = @preset_id AND w.state = 'claimed' LIMIT @most)
  UNION ALL
  (SELECT w.id, w.created_at FROM workspaces w WHERE w.preset_id = @preset_id AND w.state = 'deleted'
   ORDER BY w.deleted_at DESC LIMIT @most)
)
SELECT x.state, percentile_cont(0.5) WITHIN GROUP (ORDER BY x.lasted_s)::double precision AS p50_s,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY x.lasted_s)::double precision AS p95_s, count(*)::int AS measured
FROM latest
CROSS JOIN LATERAL (
  SELECT h.to_state AS state, extract(epoch FROM lead(h.at) OVER (ORDER BY h.id) - h.at)::double precision AS lasted_s
  FROM workspace_history h
  WHERE h.workspace_id = latest.id AND h.at >= latest.created_at -- no partition from before it was there
) x
WHERE x.lasted_s IS NOT NULL
GROUP BY x.state
ORDER BY x.state;

-- name: ProvisionTime :one
-- How long the latest prebuilds of a preset took from the decision to being ready, by those that are there: the median, in
-- seconds, and of how many. Workspaces that were used again say nothing about it.
SELECT coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY x.took_s), 0)::double precision AS median_s,
       count(*)::int AS measured
FROM (
  (SELECT extract(epoch FROM w.ready_at - w.created_at) AS took_s FROM workspaces w
   WHERE w.preset_id = @preset_id AND w.state = 'ready' AND w.incarnation = 1
   ORDER BY w.ready_at DESC LIMIT 50)
  UNION ALL
  (SELECT extract(epoch FROM w.ready_at - w.created_at) FROM workspaces w
   WHERE w.preset_id = @preset_id AND w.state = 'claimed' AND w.incarnation = 1 AND w.ready_at IS NOT NULL LIMIT 50)
) x;

-- name: ClaimHistory :many
-- The buckets of a preset from an instant on, in order.
SELECT bucket, claims, hits, provisions, provision_s, coalesce(requests, claims)::int AS requests,
       coalesce(request_hits, hits)::int AS request_hits
FROM claim_history
WHERE preset_id = @preset_id AND bucket >= sqlc.arg(since)::timestamptz ORDER BY bucket;

-- name: SizingView :one
-- What a preset is sized by: its settings, the size in effect, and what autosize recommended last.
SELECT p.id, coalesce(p.instances, 0)::int AS instances, (p.instances IS NOT NULL)::boolean AS pool, p.autosize,
       p.created_at, t.idle_cost_per_hour, prewarm_now()::timestamptz AS now, coalesce(s.size, -1)::int AS size,
       coalesce(s.forecast, 0)::int AS forecast, coalesce(s.recent, 0)::int AS recent,
       coalesce(s.boost, 1)::double precision AS boost, coalesce(s.reason, '') AS reason,
       coalesce(s.unattainable, '') AS unattainable, s.computed_at
FROM presets p
JOIN templates t ON t.id = p.template_id
LEFT JOIN preset_sizes s ON s.preset_id = p.id
WHERE p.id = @preset_id;

-- name: AttainedHits :many
-- What the claims of the last day and of the last 7 days attained of a preset whose sizes autosize sets, and why claims missed, by
-- the size that the last sample before shows. More claims than that within one provision time: the pool was at its maximum, or
-- it was a burst that was not foreseen. Fewer: the pool's prebuilds were not ready. No rows where sizes are not applied.
WITH sized AS (
  SELECT h.bucket, h.claims, h.hits, h.claims - h.hits AS missed, s.desired,
         (SELECT sum(x.claims) FROM claim_history x
          WHERE h.claims > h.hits AND x.preset_id = @preset_id AND x.bucket <= h.bucket
            AND x.bucket >= h.bucket - sqlc.arg(provision_s)::double precision * interval '1 second') AS together
  FROM claim_history h
  LEFT JOIN LATERAL (
    SELECT o.desired FROM preset_samples o
    WHERE h.claims > h.hits AND o.preset_id = @preset_id AND o.bucket <= h.bucket ORDER BY o.bucket DESC LIMIT 1
  ) s ON true
  WHERE h.preset_id = @preset_id AND h.bucket >= prewarm_now() - interval '7 days'
)
SELECT d.days::int AS days, (p.autosize ->> 'target')::double precision AS target,
       (p.autosize ->> 'max')::int AS maximum, coalesce(sum(b.claims), 0)::int AS claims,
       coalesce(sum(b.hits), 0)::int AS hits,
       coalesce(sum(b.missed) FILTER (WHERE b.together > b.desired AND b.desired >= (p.autosize ->> 'max')::int), 0)::int AS at_maximum,
       coalesce(sum(b.missed) FILTER (WHERE b.together > b.desired AND b.desired < (p.autosize ->> 'max')::int), 0)::int AS in_bursts,
       (count(*) FILTER (WHERE b.missed > 0 AND b.together > b.desired AND b.desired < (p.autosize ->> 'max')::int))::int AS bursts,
       coalesce(sum(b.missed) FILTER (WHERE b.together <= b.desired), 0)::int AS unready
FROM presets p
CROSS JOIN (VALUES (1), (7)) d(days)
LEFT JOIN sized b ON b.bucket >= prewarm_now() - d.days * interval '1 day'
WHERE p.id = @preset_id AND p.autosize ->> 'mode' = 'apply' AND p.autosize ->> 'target' IS NOT NULL
GROUP BY d.days, p.autosize
ORDER BY d.days;
