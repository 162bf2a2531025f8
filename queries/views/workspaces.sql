-- One workspace, for rooms that decide what to do with it.

-- name: WorkspaceByID :one
SELECT * FROM workspaces WHERE id = @id;

-- name: WorkspaceState :one
SELECT w.id, w.state, w.incarnation, w.template_id, w.preset_id, w.provider, w.owner_id, w.claim_id, w.organization_id,
       w.name, t.max_uses
FROM workspaces w
JOIN templates t ON t.id = w.template_id
WHERE w.id = @id;
