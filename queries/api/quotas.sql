-- How many workspaces an organization may have claimed.

-- name: SetQuota :one
-- How many workspaces an organization, and each user in it, may have claimed at once; null: any number.
UPDATE organizations SET max_claimed = sqlc.narg(max_claimed), max_claimed_per_user = sqlc.narg(max_claimed_per_user)
WHERE id = @id RETURNING *;
