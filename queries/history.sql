-- What pools looked like over time, and how long states usually last: for charts and for people. See migration 00022.

-- name: StoreSamplesTakenAt :exec
UPDATE autosize_progress SET sampled_at = @sampled_at;

-- name: SamplePresets :execrows
-- A sample of all presets, in one statement, by the counts that the last pass over each stored. A row is written where it
-- differs from the latest one of its preset, or that one is an hour old: a pool in which nothing happens costs a row an hour.
INSERT INTO preset_samples (preset_id, bucket, desired, ready, starting, claimed)
SELECT n.id, sqlc.arg(bucket)::timestamptz, n.desired, n.ready, n.starting, n.claimed
FROM (
  SELECT p.id, coalesce((s.counts ->> 'desired')::int, 0) AS desired, coalesce((s.counts ->> 'actual')::int, 0) AS ready,
         coalesce((s.counts ->> 'starting')::int, 0) AS starting, coalesce(c.claimed, 0) AS claimed
  FROM presets p
  JOIN templates t ON t.id = p.template_id
  JOIN preset_status s ON s.preset_id = p.id
  LEFT JOIN (SELECT w.preset_id, count(*)::int AS claimed FROM workspaces w WHERE w.state = 'claimed' GROUP BY w.preset_id) c
    ON c.preset_id = p.id
  WHERE p.deleted_at IS NULL AND t.deleted_at IS NULL
) n
LEFT JOIN LATERAL (
  SELECT o.bucket, o.desired, o.ready, o.starting, o.claimed FROM preset_samples o
  WHERE o.preset_id = n.id ORDER BY o.bucket DESC LIMIT 1
) latest ON true
WHERE latest.bucket IS NULL OR latest.bucket <= sqlc.arg(bucket)::timestamptz - interval '1 hour'
   OR (latest.desired, latest.ready, latest.starting, latest.claimed) IS DISTINCT FROM (n.desired, n.ready, n.starting, n.claimed)
ORDER BY n.id
ON CONFLICT (preset_id, bucket) DO NOTHING;

-- name: PresetSamples :many
-- The samples of a preset from an instant on, in order.
SELECT bucket, desired, ready, starting, claimed FROM preset_samples
WHERE preset_id = @preset_id AND bucket >= sqlc.arg(since)::timestamptz ORDER BY bucket;

-- name: PurgePresetSamples :execrows
DELETE FROM preset_samples h
USING (SELECT o.preset_id, o.bucket FROM preset_samples o
       WHERE o.bucket < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
       ORDER BY o.bucket LIMIT @batch FOR UPDATE SKIP LOCKED) old
WHERE h.preset_id = old.preset_id AND h.bucket = old.bucket;

-- name: StateDurations :many
-- How long the latest workspaces of a preset were in each state: the median and the 95th percentile, in seconds, and of how
-- many. What a workspace is in still does not count. `most` of those that are there unclaimed, of those claimed, and of the
-- last that were deleted within the week in which they are kept.
WITH latest AS MATERIALIZED (
  (SELECT w.id FROM workspaces w
   WHERE w.template_id = @template_id AND w.preset_id = @preset_id AND w.state NOT IN ('claimed', 'deleted') LIMIT @most)
  UNION ALL
  (SELECT w.id FROM workspaces w WHERE w.preset_id = @preset_id AND w.state = 'claimed' LIMIT @most)
  UNION ALL
  (SELECT w.id FROM workspaces w WHERE w.preset_id = @preset_id AND w.state = 'deleted'
   ORDER BY w.deleted_at DESC LIMIT @most)
)
SELECT x.state, percentile_cont(0.5) WITHIN GROUP (ORDER BY x.lasted_s)::double precision AS p50_s,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY x.lasted_s)::double precision AS p95_s, count(*)::int AS measured
FROM latest
CROSS JOIN LATERAL (
  SELECT h.to_state AS state, extract(epoch FROM lead(h.at) OVER (ORDER BY h.id) - h.at)::double precision AS lasted_s
  FROM workspace_history h WHERE h.workspace_id = latest.id
) x
WHERE x.lasted_s IS NOT NULL
GROUP BY x.state
ORDER BY x.state;
