-- The data plane: who may enter which workspace, and where its tunnel is.

-- name: Entrance :one
-- By id or by name: all that a request into a workspace needs, in one read. The newest tunnel takes it.
SELECT w.id, w.name, w.state, w.incarnation, w.owner_id, w.claim_id, t.name AS template,
       (v.agent IS NOT NULL)::boolean AS has_agent,
       (v.agent IS NOT NULL AND coalesce(v.agent ->> 'data_plane', 'true') <> 'false')::boolean AS data_plane,
       coalesce(tunnel.id, '00000000-0000-0000-0000-000000000000')::uuid AS tunnel_id,
       coalesce(tunnel.replica_id, '00000000-0000-0000-0000-000000000000')::uuid AS replica_id,
       coalesce(tunnel.url, '')::text AS url
FROM workspaces w
JOIN templates t ON t.id = w.template_id
JOIN template_versions v ON v.id = w.template_version_id
LEFT JOIN LATERAL (
  SELECT n.id, n.replica_id, n.url FROM tunnels n
  WHERE n.workspace_id = w.id AND n.incarnation = w.incarnation
  ORDER BY n.connected_at DESC LIMIT 1) tunnel ON true
WHERE w.organization_id = @organization_id
  AND (w.id = sqlc.narg(id)::uuid OR w.name = sqlc.narg(name)::text);

-- name: HasDataPlane :one
-- Whether the version of a workspace lets its agent open a tunnel.
SELECT (v.agent IS NOT NULL AND coalesce(v.agent ->> 'data_plane', 'true') <> 'false')::boolean AS data_plane
FROM workspaces w JOIN template_versions v ON v.id = w.template_version_id
WHERE w.id = @id;
