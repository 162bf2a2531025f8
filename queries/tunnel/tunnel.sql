-- Tunnels of agents. A replica writes only rows of its own, but for the sweep.

-- name: InsertTunnel :execrows
-- No row: the token is not good any more, and the tunnel must not be used. A row that is there already is one that the
-- replica wrote before.
INSERT INTO tunnels (id, workspace_id, incarnation, attempt, replica_id, url, connected_at)
SELECT @id, w.id, w.incarnation, a.attempt, @replica_id, @url, prewarm_now()
FROM workspaces w JOIN agents a ON a.workspace_id = w.id AND a.incarnation = w.incarnation
WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND a.attempt = @attempt
  AND w.state IN ('provisioning', 'starting', 'ready', 'standby', 'claimed')
ON CONFLICT (id) DO UPDATE SET url = excluded.url;

-- name: DeleteTunnels :exec
DELETE FROM tunnels WHERE id = ANY (@ids::uuid[]) AND replica_id = @replica_id;

-- name: TunnelsToKeep :many
-- Which tunnels of the replica are still those of the work that their token is for. What is missing has ended, or lost its
-- row.
SELECT t.id
FROM tunnels t
JOIN workspaces w ON w.id = t.workspace_id AND w.incarnation = t.incarnation
JOIN agents a ON a.workspace_id = w.id AND a.incarnation = w.incarnation AND a.attempt = t.attempt
WHERE t.replica_id = @replica_id AND (@every::boolean OR t.workspace_id = ANY (@ids::uuid[]))
  AND w.state IN ('provisioning', 'starting', 'ready', 'standby', 'claimed');

-- name: TunnelsElsewhere :many
-- Which of these workspaces have a tunnel to another replica, which is to look at it.
SELECT DISTINCT t.workspace_id FROM tunnels t WHERE t.workspace_id = ANY (@ids::uuid[]) AND t.replica_id <> @replica_id;

-- name: SweepTunnels :execrows
-- What replicas left behind that are gone, or say nothing for half a minute. One that was only frozen writes its rows again.
DELETE FROM tunnels t
WHERE NOT EXISTS (SELECT FROM replicas r WHERE r.instance_id = t.replica_id
                  AND r.heartbeat_at > prewarm_now() - interval '30 seconds')
  AND t.connected_at < prewarm_now() - interval '30 seconds';
