-- The server processes, as they report themselves.

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

-- name: BeatReplica :exec
-- Registers a replica, or says that it lives. Another run of the same name takes the row over.
INSERT INTO replicas (name, instance_id, version, address, sites, started_at, heartbeat_at, stopping)
VALUES (@name, @instance_id, @version, @address, @sites::text[], prewarm_now(), prewarm_now(), @stopping)
ON CONFLICT (name) DO UPDATE
SET instance_id = excluded.instance_id, version = excluded.version, address = excluded.address,
    sites = excluded.sites, heartbeat_at = excluded.heartbeat_at, stopping = excluded.stopping,
    started_at = CASE WHEN replicas.instance_id = excluded.instance_id
                 THEN replicas.started_at ELSE excluded.started_at END;

-- name: LeaveReplica :exec
-- A replica that stopped in order is no longer listed.
DELETE FROM replicas WHERE name = @name AND instance_id = @instance_id;

-- name: PurgeReplicas :execrows
DELETE FROM replicas WHERE heartbeat_at < prewarm_now() - interval '1 day';

-- name: ReplicaWork :many
-- What each replica is at: the jobs whose lease it has, by kind.
SELECT j.leased_by AS replica, j.kind, count(*)::int AS jobs
FROM jobs j
WHERE j.state = 'running'
GROUP BY j.leased_by, j.kind
ORDER BY j.leased_by, j.kind;
