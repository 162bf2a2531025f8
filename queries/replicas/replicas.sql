-- The heartbeats of server processes.

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
