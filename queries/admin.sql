-- What the database layer itself asks.

-- name: InsertInstallation :exec
-- The first replica to come names the installation; what the others bring is dropped.
INSERT INTO installation (id, created_at) VALUES (@id, prewarm_now()) ON CONFLICT DO NOTHING;

-- name: GetInstallationID :one
SELECT id FROM installation;

-- name: GetNow :one
-- The time as every other query sees it.
SELECT prewarm_now()::timestamptz AS now;

-- name: Notify :exec
-- A hint to whoever listens. NOTIFY takes a global lock at commit, so it is sent alone, after the deed.
SELECT pg_notify(@channel::text, @payload::text);

-- name: SetQuota :one
-- How many workspaces an organization, and each user in it, may have claimed at once; null: any number.
UPDATE organizations SET max_claimed = sqlc.narg(max_claimed), max_claimed_per_user = sqlc.narg(max_claimed_per_user)
WHERE id = @id RETURNING *;

-- name: Quota :one
SELECT * FROM organizations WHERE id = @id;
