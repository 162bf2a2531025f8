-- The data plane: who may enter which workspace, and where its tunnel is.

-- name: Entrance :one
-- By id or by name, in one organization or, for who belongs to none, in any: all that a request into a workspace needs, in one read. The newest tunnel takes it. To whom else than the
-- user of the claim it is open is what its version says, as far as it was allowed when it was claimed and still is.
SELECT w.id, w.name, w.state, w.incarnation, w.organization_id, w.owner_id, w.claim_id, t.name AS template,
       (v.agent IS NOT NULL)::boolean AS has_agent,
       (v.agent IS NOT NULL AND coalesce(v.agent ->> 'data_plane', 'true') <> 'false')::boolean AS data_plane,
       coalesce(tunnel.id, '00000000-0000-0000-0000-000000000000')::uuid AS tunnel_id,
       coalesce(tunnel.replica_id, '00000000-0000-0000-0000-000000000000')::uuid AS replica_id,
       coalesce(tunnel.url, '')::text AS url,
       ARRAY(SELECT jsonb_array_elements_text(v.agent -> 'enter')
             WHERE w.state = 'claimed' AND p.enter_allowed_at <= w.claimed_at)::text[] AS enter,
       ARRAY(SELECT jsonb_array_elements_text(v.agent -> 'public_ports')::int
             WHERE w.state = 'claimed' AND p.public_ports_allowed_at <= w.claimed_at)::int[] AS public_ports
FROM workspaces w
JOIN templates t ON t.id = w.template_id
JOIN template_versions v ON v.id = w.template_version_id
JOIN providers p ON p.name = w.provider
LEFT JOIN LATERAL (
  SELECT n.id, n.replica_id, n.url FROM tunnels n
  WHERE n.workspace_id = w.id AND n.incarnation = w.incarnation
  ORDER BY n.connected_at DESC LIMIT 1) tunnel ON true
WHERE (sqlc.narg(organization_id)::uuid IS NULL OR w.organization_id = sqlc.narg(organization_id)::uuid)
  AND (w.id = sqlc.narg(id)::uuid OR w.name = sqlc.narg(name)::text);

-- name: HasDataPlane :one
-- Whether the version of a workspace lets its agent open a tunnel.
SELECT (v.agent IS NOT NULL AND coalesce(v.agent ->> 'data_plane', 'true') <> 'false')::boolean AS data_plane
FROM workspaces w JOIN template_versions v ON v.id = w.template_version_id
WHERE w.id = @id;

-- name: OpenVersion :one
-- Whether a version opens its claimed workspaces to others, where that is allowed. It never changes.
SELECT (coalesce(agent ? 'enter', false) OR coalesce(agent ? 'public_ports', false))::boolean AS opens
FROM template_versions WHERE id = @id;

-- name: OpenWorkspaces :many
-- Of these, those that are claimed, with to whom they are open, as in Entrance: for what goes on for long in them.
SELECT w.id, w.incarnation,
       ARRAY(SELECT jsonb_array_elements_text(v.agent -> 'enter') WHERE p.enter_allowed_at <= w.claimed_at)::text[] AS enter,
       ARRAY(SELECT jsonb_array_elements_text(v.agent -> 'public_ports')::int
             WHERE p.public_ports_allowed_at <= w.claimed_at)::int[] AS public_ports
FROM workspaces w
JOIN template_versions v ON v.id = w.template_version_id
JOIN providers p ON p.name = w.provider
WHERE w.id = ANY (@ids::uuid[]) AND w.state = 'claimed';
