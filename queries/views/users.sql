-- Users by name.

-- name: UserByName :one
SELECT * FROM users WHERE name = @name;
