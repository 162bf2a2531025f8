-- Who may do what: users, memberships and tokens.

-- name: TokenPrincipal :many
-- Who a token speaks for, or a session that stands for one, one row per organization; no row if it is unknown, revoked or
-- expired, or its user is disabled. The built-in identity has no token, and none that got here some other way would work
-- (C16).
SELECT c.id AS credential_id, tk.id AS token_id, tk.name AS token_name, tk.expires_at, u.id AS user_id, u.name AS user_name,
       o.id AS organization_id, o.name AS organization, m.role,
       (tk.last_used_at IS NULL OR tk.last_used_at < prewarm_now() - interval '1 minute')::boolean AS touch
FROM (SELECT t.id, t.id AS token_id FROM tokens t WHERE t.hash = @hash
      UNION ALL
      SELECT se.id, se.token_id FROM sessions se WHERE se.hash = @hash AND se.expires_at > prewarm_now()) c
JOIN tokens tk ON tk.id = c.token_id
JOIN users u ON u.id = tk.user_id
JOIN memberships m ON m.user_id = u.id
JOIN organizations o ON o.id = m.organization_id
WHERE tk.revoked_at IS NULL AND (tk.expires_at IS NULL OR tk.expires_at > prewarm_now())
  AND u.disabled_at IS NULL AND m.role <> 'system'
ORDER BY o.name;

-- name: InsertSession :one
-- A session ends with its token.
INSERT INTO sessions (id, token_id, hash, created_at, expires_at)
SELECT @id, tk.id, @hash, prewarm_now(),
       least(prewarm_now() + sqlc.arg(expires_in_s)::double precision * interval '1 second', tk.expires_at)
FROM tokens tk WHERE tk.id = @token_id
RETURNING expires_at;

-- name: DeleteSession :exec
DELETE FROM sessions WHERE id = @id;

-- name: StillValid :many
-- Of the tokens and sessions of these ids, those that are still valid, with the role of their user in each organization.
SELECT c.id, m.organization_id, m.role
FROM (SELECT t.id, t.id AS token_id FROM tokens t WHERE t.id = ANY (@ids::uuid[])
      UNION ALL
      SELECT se.id, se.token_id FROM sessions se WHERE se.id = ANY (@ids::uuid[]) AND se.expires_at > prewarm_now()) c
JOIN tokens tk ON tk.id = c.token_id
JOIN users u ON u.id = tk.user_id
JOIN memberships m ON m.user_id = u.id
WHERE tk.revoked_at IS NULL AND (tk.expires_at IS NULL OR tk.expires_at > prewarm_now())
  AND u.disabled_at IS NULL AND m.role <> 'system';

-- name: TouchToken :exec
-- Minute-fine, and never waits for another replica that does the same.
UPDATE tokens SET last_used_at = prewarm_now()
WHERE id = (SELECT tk.id FROM tokens tk WHERE tk.id = @id FOR NO KEY UPDATE SKIP LOCKED);

-- name: TokenByHash :one
SELECT id, user_id, revoked_at FROM tokens WHERE hash = @hash;

-- name: UserInOrganization :one
SELECT u.id, u.name, u.disabled_at, m.role
FROM users u
JOIN memberships m ON m.user_id = u.id AND m.organization_id = @organization_id
WHERE u.name = @name;

-- name: InsertUser :exec
INSERT INTO users (id, name, created_at) VALUES (@id, @name, prewarm_now());

-- name: InsertMembership :exec
INSERT INTO memberships (organization_id, user_id, role) VALUES (@organization_id, @user_id, @role);

-- name: InsertToken :one
-- A token does not outlive the one it was made with (not_after, and RevokeToken).
INSERT INTO tokens (id, user_id, name, hash, hint, created_at, created_by, made_with, expires_at)
VALUES (@id, @user_id, @name, @hash, @hint, prewarm_now(), @created_by, sqlc.narg(made_with),
        least(prewarm_now() + sqlc.narg(expires_in_s)::double precision * interval '1 second',
              sqlc.narg(not_after)::timestamptz))
RETURNING id, created_at, expires_at;

-- name: LockTokens :many
-- The tokens that a name or an id may mean, for revocation.
SELECT tk.id, tk.name, tk.user_id, u.name AS user_name, tk.revoked_at
FROM tokens tk
JOIN users u ON u.id = tk.user_id
JOIN memberships m ON m.user_id = u.id AND m.organization_id = @organization_id
WHERE (tk.id::text = @ref::text OR tk.name = @ref::text)
  AND (sqlc.narg(user_id)::uuid IS NULL OR tk.user_id = sqlc.narg(user_id)::uuid)
ORDER BY tk.id
FOR NO KEY UPDATE OF tk;

-- name: LockToken :one
-- While a token is made with it, it is not revoked. No row if it is revoked already.
SELECT id FROM tokens WHERE id = @id AND revoked_at IS NULL FOR SHARE;

-- name: RevokeToken :many
-- With all that were made with it, and with those.
WITH RECURSIVE ended (id) AS (
  SELECT @id::uuid
  UNION
  SELECT made.id FROM tokens made JOIN ended ON made.made_with = ended.id
)
UPDATE tokens tk SET revoked_at = prewarm_now()
FROM ended, users u
WHERE tk.id = ended.id AND u.id = tk.user_id AND tk.revoked_at IS NULL
RETURNING tk.id, tk.name, u.name AS user_name;
