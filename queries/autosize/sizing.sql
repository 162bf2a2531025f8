-- Sizes: counting what was claimed, and what is read and stored to compute sizes from it. One replica at a time.

-- name: TryAutosizeLock :one
SELECT pg_try_advisory_xact_lock(1886545271, 2) AS locked;

-- name: AutosizeProgress :one
SELECT counted_through, computed_at, sampled_at, prewarm_now()::timestamptz AS now FROM autosize_progress;

-- name: StoreAutosizeProgress :exec
UPDATE autosize_progress SET counted_through = @counted_through, computed_at = @computed_at;

-- name: CountClaims :exec
-- Counts the claims of each pool in the buckets that begin at an instant or later, through another, from the index
-- (preset_id, created_at). What came after that, the page of pools adds (PoolHours). Claims that asked for no prebuild do
-- not count: they say nothing about a pool. Those of one request (a group, named by the first of them) are as many claims,
-- each of which takes a workspace, and one request; they are bound in one transaction, so all or none are hits.
INSERT INTO claim_history AS h (preset_id, bucket, claims, hits, requests, request_hits)
SELECT p.id, c.bucket, c.claims, c.hits, c.requests, c.request_hits
FROM presets p
CROSS JOIN LATERAL (
  SELECT date_bin('5 minutes', x.created_at, 'epoch'::timestamptz) AS bucket, count(*)::int AS claims,
         (count(*) FILTER (WHERE x.outcome = 'hit'))::int AS hits,
         (count(*) FILTER (WHERE x.group_id IS NULL OR x.group_id = x.id))::int AS requests,
         (count(*) FILTER (WHERE x.outcome = 'hit' AND (x.group_id IS NULL OR x.group_id = x.id)))::int AS request_hits
  FROM claims x
  WHERE x.preset_id = p.id AND x.created_at >= sqlc.arg(since)::timestamptz
    AND x.created_at <= sqlc.arg(through)::timestamptz AND x.mode::text <> 'bypass'
  GROUP BY 1
) c
WHERE p.instances IS NOT NULL AND p.deleted_at IS NULL
ORDER BY p.id, c.bucket
ON CONFLICT (preset_id, bucket) DO UPDATE
  SET claims = excluded.claims, hits = excluded.hits, requests = excluded.requests, request_hits = excluded.request_hits
  WHERE (h.claims, h.hits, h.requests, h.request_hits)
    IS DISTINCT FROM (excluded.claims, excluded.hits, excluded.requests, excluded.request_hits);

-- name: CountProvisions :exec
-- Counts the workspaces that became ready for the first time, and how long they took.
INSERT INTO claim_history AS h (preset_id, bucket, provisions, provision_s)
SELECT w.preset_id, date_bin('5 minutes', e.at, 'epoch'::timestamptz), count(*)::int,
       sum(extract(epoch FROM e.at - w.created_at))::double precision
FROM workspace_history e
JOIN workspaces w ON w.id = e.workspace_id
WHERE e.at >= sqlc.arg(since)::timestamptz AND e.at <= prewarm_now()
  AND e.from_state = 'starting' AND e.to_state = 'ready' AND e.incarnation = 1
  AND NOT EXISTS (SELECT FROM workspace_history b -- nor after a silence, nor out of standby
                  WHERE b.workspace_id = e.workspace_id AND b.id < e.id AND b.to_state = 'ready')
GROUP BY 1, 2
ORDER BY 1, 2
ON CONFLICT (preset_id, bucket) DO UPDATE SET provisions = excluded.provisions, provision_s = excluded.provision_s
  WHERE h.provisions IS DISTINCT FROM excluded.provisions;

-- name: AutosizedPresets :many
-- The pools that autosize computes a size for, with what it remembers of them, and how many jobs of a forge are announced: held
-- back for less than an hour, to be given to this pool's runners. What is held back for longer may be so for days.
SELECT p.id, p.template_id, p.autosize, s.state, coalesce(s.size, -1)::int AS size, s.computed_at,
       coalesce(a.announced, 0)::int AS announced
FROM presets p
JOIN templates t ON t.id = p.template_id
LEFT JOIN preset_sizes s ON s.preset_id = p.id
LEFT JOIN (SELECT j.preset_id, count(*) AS announced FROM forge_jobs j
           WHERE j.state = 'waiting' AND j.state <> 'completed' AND j.queued_at > prewarm_now() - interval '1 hour'
           GROUP BY j.preset_id) a ON a.preset_id = p.id AND p.forge_entity_id IS NOT NULL
WHERE p.instances IS NOT NULL AND p.autosize ->> 'mode' IN ('apply', 'forecast')
  AND p.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL
ORDER BY p.id;

-- name: StorePresetSize :exec
INSERT INTO preset_sizes (preset_id, size, forecast, recent, boost, reason, unattainable, state, computed_at)
VALUES (@preset_id, @size, @forecast, @recent, @boost, @reason, @unattainable, @state, @computed_at)
ON CONFLICT (preset_id) DO UPDATE
  SET size = excluded.size, forecast = excluded.forecast, recent = excluded.recent, boost = excluded.boost,
      reason = excluded.reason, unattainable = excluded.unattainable, state = excluded.state,
      computed_at = excluded.computed_at;

-- name: ClaimsSince :many
-- When claims came and whether they hit, the latest first, no more than a replay can take.
SELECT created_at, (outcome IS NOT DISTINCT FROM 'hit')::boolean AS hit FROM claims
WHERE preset_id = @preset_id AND created_at >= sqlc.arg(since)::timestamptz AND created_at <= prewarm_now()
  AND mode::text <> 'bypass'
ORDER BY created_at DESC LIMIT @most;
