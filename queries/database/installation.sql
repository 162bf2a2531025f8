-- The id of the installation.

-- name: InsertInstallation :exec
-- The first replica to come names the installation; what the others bring is dropped.
INSERT INTO installation (id, created_at) VALUES (@id, prewarm_now()) ON CONFLICT DO NOTHING;

-- name: GetInstallationID :one
SELECT id FROM installation;
