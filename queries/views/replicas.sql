-- The server processes, as they report themselves, and the last pass.

-- name: LastPass :one
SELECT seq, holder, began_at, full_began_at, prewarm_now()::timestamptz AS now FROM reconcile_fence;

-- name: Replicas :many
-- Stale: no heartbeat for 15 s. The fence names the replica of the last pass.
SELECT r.name, r.version, r.address, r.sites, r.started_at, r.heartbeat_at,
       (CASE WHEN r.heartbeat_at < prewarm_now() - interval '15 seconds' THEN 'stale'
             WHEN r.stopping THEN 'stopping'
             ELSE 'alive' END)::text AS state,
       (f.holder = r.name)::boolean AS last_pass
FROM replicas r CROSS JOIN reconcile_fence f
ORDER BY r.name;

-- name: ReplicasOfSite :many
-- Whom to ask for a resource that only one site reaches; the freshest first.
SELECT name, address FROM replicas
WHERE @site::text = ANY (sites) AND NOT stopping AND heartbeat_at >= prewarm_now() - interval '15 seconds'
ORDER BY heartbeat_at DESC, name;

-- name: ReplicaWork :many
-- What each replica is at: the jobs whose lease it has, by kind.
SELECT j.leased_by AS replica, j.kind, count(*)::int AS jobs
FROM jobs j
WHERE j.state = 'running'
GROUP BY j.leased_by, j.kind
ORDER BY j.leased_by, j.kind;
