-- Credentials and entities of forges (coderd/demand/entities): what people set. Secrets are sealed before they come here.

-- name: LockForgeCredential :one
SELECT * FROM forge_credentials WHERE organization_id = @organization_id AND name = @name FOR UPDATE;

-- name: InsertForgeCredential :exec
INSERT INTO forge_credentials (id, organization_id, name, kind, url, auth, app_id, installation_id, secret, sealed_by,
  ca_bundle, created_at, updated_at)
VALUES (@id, @organization_id, @name, @kind, @url, @auth, sqlc.narg(app_id), sqlc.narg(installation_id), @secret, @sealed_by,
  @ca_bundle, prewarm_now(), prewarm_now());

-- name: UpdateForgeCredential :exec
UPDATE forge_credentials
SET url = @url, auth = @auth, app_id = sqlc.narg(app_id), installation_id = sqlc.narg(installation_id), secret = @secret,
    sealed_by = @sealed_by, ca_bundle = @ca_bundle, updated_at = prewarm_now()
WHERE id = @id;

-- name: DeleteForgeCredential :exec
DELETE FROM forge_credentials WHERE id = @id;

-- name: ForgeCredentialUsers :many
-- The entities that a credential is of. Deleted ones count for the row's sake only: they are let go of first.
SELECT e.name FROM forge_entities e WHERE e.credential_id = @credential_id AND e.deleted_at IS NULL ORDER BY e.name;

-- name: ForgetForgeEntities :exec
-- Deleted entities without runners or open deliveries go for good, so that their credential can.
DELETE FROM forge_entities e WHERE e.credential_id = @credential_id AND e.deleted_at IS NOT NULL;

-- name: ForgetForgeStatus :exec
DELETE FROM forge_status s USING forge_entities e
WHERE s.entity_id = e.id AND e.credential_id = @credential_id AND e.deleted_at IS NOT NULL;

-- name: EndForgeWaits :exec
-- With another credential what a forge answered before says nothing: its entities are asked at once.
UPDATE forge_status s SET wait_until = NULL, runners_wait_until = NULL, asked_at = NULL
FROM forge_entities e
WHERE e.id = s.entity_id AND (e.credential_id = sqlc.narg(credential_id) OR e.id = sqlc.narg(entity_id));

-- name: LockForgeEntity :one
SELECT * FROM forge_entities WHERE organization_id = @organization_id AND name = @name AND deleted_at IS NULL FOR UPDATE;

-- name: InsertForgeEntity :exec
INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, balance, webhook_secret, sealed_by,
  created_at, updated_at)
VALUES (@id, @organization_id, @name, @scope, @path, @credential_id, @balance, @webhook_secret, @sealed_by, prewarm_now(),
  prewarm_now());

-- name: InsertForgeStatus :exec
INSERT INTO forge_status (entity_id) VALUES (@entity_id);

-- name: UpdateForgeEntity :exec
UPDATE forge_entities
SET credential_at = CASE WHEN credential_id <> @credential_id THEN prewarm_now() ELSE credential_at END,
    credential_id = @credential_id, balance = @balance, webhook_secret = @webhook_secret, sealed_by = @sealed_by,
    webhook_secret_before = @webhook_secret_before,
    before_until = CASE WHEN sqlc.narg(overlap_s)::double precision IS NOT NULL
                        THEN prewarm_now() + sqlc.narg(overlap_s)::double precision * interval '1 second'
                        ELSE sqlc.narg(before_until)::timestamptz END,
    updated_at = prewarm_now()
WHERE id = @id;

-- name: StopForgeEntity :many
-- The last word holds: a stop without a drain ends the drain of the one before. It returns the templates that it bears on.
WITH it AS (
  UPDATE forge_entities e
  SET stopped_at = CASE WHEN @stopped::boolean THEN coalesce(e.stopped_at, prewarm_now()) END, stopped_reason = @reason,
      drain_at = CASE WHEN @stopped::boolean AND @drain::boolean THEN prewarm_now() END, updated_at = prewarm_now()
  WHERE e.id = @id
  RETURNING e.id
)
SELECT DISTINCT p.template_id FROM presets p JOIN it ON it.id = p.forge_entity_id WHERE p.deleted_at IS NULL;

-- name: SetForgeHook :execrows
UPDATE forge_entities SET hook_id = sqlc.narg(hook_id) WHERE id = @id AND deleted_at IS NULL;

-- name: ForgeEntityUsers :one
-- What an entity cannot be deleted for: presets that name it, and runners that live.
SELECT coalesce((SELECT array_agg(t.name || '/' || p.name ORDER BY t.name, p.name)
                 FROM presets p JOIN templates t ON t.id = p.template_id
                 WHERE p.forge_entity_id = e.id AND p.deleted_at IS NULL AND t.deleted_at IS NULL), '{}')::text[] AS presets,
       (SELECT count(*) FROM forge_runners r JOIN workspaces w ON w.id = r.workspace_id AND w.incarnation = r.incarnation
        WHERE r.entity_id = e.id AND r.status <> 'gone' AND w.state <> 'deleted')::int AS runners
FROM forge_entities e WHERE e.id = @id;

-- name: DeleteForgeEntity :exec
UPDATE forge_entities SET deleted_at = prewarm_now(), updated_at = prewarm_now() WHERE id = @id;

-- name: DirectoryEntities :many
-- Everything that is needed to speak to entities and to believe their webhooks, still sealed.
SELECT e.id, e.organization_id, e.name, e.scope, e.path, e.balance, e.hook_id, e.webhook_secret, e.sealed_by,
       e.webhook_secret_before, coalesce(e.before_until > prewarm_now(), false)::boolean AS overlaps, e.stopped_at, e.updated_at,
       c.id AS credential_id, c.name AS credential, c.kind, c.url, c.auth, c.app_id, c.installation_id, c.secret,
       c.sealed_by AS credential_sealed_by, c.ca_bundle, c.updated_at AS credential_updated_at
FROM forge_entities e JOIN forge_credentials c ON c.id = e.credential_id
WHERE e.deleted_at IS NULL ORDER BY e.name;

-- name: LockForgeCredentials :many
SELECT * FROM forge_credentials ORDER BY id FOR UPDATE;

-- name: LockForgeEntities :many
SELECT * FROM forge_entities ORDER BY id FOR UPDATE;

-- name: ResealForgeCredential :exec
UPDATE forge_credentials SET secret = @secret, sealed_by = @sealed_by WHERE id = @id;

-- name: ResealForgeEntity :exec
UPDATE forge_entities
SET webhook_secret = @webhook_secret, webhook_secret_before = @webhook_secret_before, sealed_by = @sealed_by
WHERE id = @id;
