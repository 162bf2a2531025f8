-- Samples of pools over time. See migration 00022.

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
