-- Webhook notifications and episodes, as people see them.

-- name: Notifications :many
-- The newest first; those of the organization, and of the whole installation.
SELECT * FROM notifications
WHERE organization_id IS NULL OR organization_id = @organization_id::uuid
ORDER BY created_at DESC, id LIMIT @max_rows;
