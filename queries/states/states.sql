-- States of Terraform. Each write of a run is a transaction that begins with HoldTerraformRun: it proves that the run is the
-- newest, and keeps the next one out until it is over.

-- name: BeginTerraformRun :one
-- From now on only the token of this run is good, and the lock of the run before is gone. No row: the attempt is over. The job
-- is locked, so that of two attempts the later one begins last.
WITH held AS (
  SELECT j.workspace_id, j.incarnation, j.id, j.attempt FROM jobs j
  WHERE j.id = @job_id AND j.attempt = @attempt AND j.state = 'running'
  FOR SHARE
)
INSERT INTO terraform_runs (workspace_id, incarnation, job_id, attempt, token_hash, created_at)
SELECT held.workspace_id, held.incarnation, held.id, held.attempt, @token_hash, prewarm_now() FROM held
ON CONFLICT (workspace_id) DO UPDATE
SET incarnation = excluded.incarnation, job_id = excluded.job_id, attempt = excluded.attempt,
    token_hash = excluded.token_hash, lock_id = NULL, lock_info = NULL, created_at = excluded.created_at
RETURNING workspace_id;

-- name: TerraformRun :one
-- What a token is checked against.
SELECT r.incarnation, r.token_hash, coalesce(w.name, '')::text AS workspace,
       EXISTS (SELECT FROM jobs j WHERE j.id = r.job_id AND j.attempt = r.attempt AND j.state = 'running') AS running
FROM terraform_runs r LEFT JOIN workspaces w ON w.id = r.workspace_id
WHERE r.workspace_id = @workspace_id;

-- name: HoldTerraformRun :one
-- The fence. No row: the attempt is over, or a later run has begun, and nothing may be written.
SELECT coalesce(r.lock_id, '')::text AS lock_id, coalesce(r.lock_info, 'null')::jsonb AS lock_info
FROM terraform_runs r
WHERE r.workspace_id = @workspace_id AND r.token_hash = @token_hash
  AND EXISTS (SELECT FROM jobs j WHERE j.id = r.job_id AND j.attempt = r.attempt AND j.state = 'running')
FOR NO KEY UPDATE OF r;

-- name: LockTerraformState :exec
UPDATE terraform_runs SET lock_id = @lock_id::text, lock_info = @lock_info::jsonb WHERE workspace_id = @workspace_id;

-- name: UnlockTerraformState :exec
UPDATE terraform_runs SET lock_id = NULL, lock_info = NULL WHERE workspace_id = @workspace_id;

-- name: InsertTerraformState :execrows
-- No row: there is one as new. An older one, of a request that was overtaken, must not become the newest.
INSERT INTO terraform_states (workspace_id, version, incarnation, lineage, serial, sealed, sealed_by, size, md5, created_at)
SELECT @workspace_id, 1 + coalesce((SELECT max(o.version) FROM terraform_states o WHERE o.workspace_id = @workspace_id), 0),
       @incarnation, @lineage, @serial, @sealed, @sealed_by, @size, @md5, prewarm_now()
WHERE NOT EXISTS (SELECT FROM terraform_states n
                  WHERE n.workspace_id = @workspace_id AND n.lineage = @lineage AND n.serial >= @serial);

-- name: HasTerraformState :one
-- Whether the newest is that one: its answer may have been lost, and it is sent again.
SELECT EXISTS (SELECT FROM terraform_states s
               WHERE s.workspace_id = @workspace_id AND s.lineage = @lineage AND s.serial = @serial AND s.md5 = @md5
                 AND s.version = (SELECT max(n.version) FROM terraform_states n WHERE n.workspace_id = @workspace_id));

-- name: NewestTerraformState :one
SELECT * FROM terraform_states WHERE workspace_id = @workspace_id ORDER BY version DESC LIMIT 1;

-- name: TerraformStatesToReseal :many
-- Those that another key sealed, without what they are: that is read one by one.
SELECT workspace_id, version FROM terraform_states WHERE sealed_by <> @key_id ORDER BY workspace_id, version;

-- name: SealedTerraformState :one
-- No row: retention has deleted it meanwhile.
SELECT * FROM terraform_states WHERE workspace_id = @workspace_id AND version = @version FOR UPDATE;

-- name: ResealTerraformState :exec
UPDATE terraform_states SET sealed = @sealed, sealed_by = @sealed_by
WHERE workspace_id = @workspace_id AND version = @version;
