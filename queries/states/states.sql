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
INSERT INTO terraform_runs (workspace_id, incarnation, name, job_id, attempt, token_hash, created_at)
SELECT held.workspace_id, held.incarnation, w.name, held.id, held.attempt, @token_hash, prewarm_now()
FROM held JOIN workspaces w ON w.id = held.workspace_id
ON CONFLICT (workspace_id) DO UPDATE
SET incarnation = excluded.incarnation, name = excluded.name, job_id = excluded.job_id, attempt = excluded.attempt,
    check_until = NULL, token_hash = excluded.token_hash, lock_id = NULL, lock_info = NULL, created_at = excluded.created_at
RETURNING workspace_id;

-- name: BeginTerraformCheck :execrows
-- A run without a job, of what has no row in workspaces: a check's, or an orphan's. No row: it has one. What an apply of a workspace
-- may have left is forgotten: where it is deleted and something was unsure, a person has forced that.
INSERT INTO terraform_runs (workspace_id, incarnation, name, check_until, token_hash, created_at)
SELECT @workspace_id, @incarnation, @name, prewarm_now() + sqlc.arg(seconds)::float8 * interval '1 second', @token_hash, prewarm_now()
WHERE NOT EXISTS (SELECT FROM workspaces w WHERE w.id = @workspace_id AND w.state <> 'deleted')
ON CONFLICT (workspace_id) DO UPDATE
SET incarnation = greatest(excluded.incarnation, terraform_runs.incarnation), job_id = NULL, attempt = NULL, check_until = excluded.check_until,
    token_hash = excluded.token_hash, lock_id = NULL, lock_info = NULL, created_at = excluded.created_at,
    creating = CASE WHEN terraform_runs.job_id IS NULL THEN terraform_runs.creating END;

-- name: TerraformRun :one
-- What a token is checked against.
SELECT r.incarnation, r.token_hash, r.name AS workspace,
       coalesce(r.check_until > prewarm_now()
         OR EXISTS (SELECT FROM jobs j WHERE j.id = r.job_id AND j.attempt = r.attempt AND j.state = 'running'), false)::boolean AS running
FROM terraform_runs r
WHERE r.workspace_id = @workspace_id;

-- name: HoldTerraformRun :one
-- The fence. No row: the attempt is over, or a later run has begun, and nothing may be written.
SELECT coalesce(r.lock_id, '')::text AS lock_id, coalesce(r.lock_info, 'null')::jsonb AS lock_info
FROM terraform_runs r
WHERE r.workspace_id = @workspace_id AND r.token_hash = @token_hash
  AND (r.check_until > prewarm_now()
       OR EXISTS (SELECT FROM jobs j WHERE j.id = r.job_id AND j.attempt = r.attempt AND j.state = 'running'))
FOR NO KEY UPDATE OF r;

-- name: KeepTerraformModule :exec
-- Its archive stays from now on: the sweep looks at used_at once more before it deletes an archive that nothing names.
WITH used AS (UPDATE terraform_modules SET used_at = prewarm_now() WHERE digest = sqlc.narg(archive)::text)
UPDATE terraform_runs SET module = @module, sealed_by = @sealed_by, archive = sqlc.narg(archive)::text WHERE workspace_id = @workspace_id;

-- name: ResealTerraformModule :exec
UPDATE terraform_runs SET module = @module, sealed_by = @sealed_by WHERE workspace_id = @workspace_id;

-- name: TerraformApplying :exec
-- From now on these may exist without a state that names them, beside those of an apply that was cut off. Runs that begin leave them.
UPDATE terraform_runs
SET creating = (SELECT array_agg(DISTINCT a) FROM unnest(creating || sqlc.arg(addresses)::text[]) a), creating_at = prewarm_now()
WHERE workspace_id = @workspace_id;

-- name: TerraformNamed :exec
-- A state names these: they are found by it.
UPDATE terraform_runs
SET creating = (SELECT array_agg(a) FROM unnest(creating) a WHERE a NOT IN (SELECT unnest(sqlc.arg(addresses)::text[])))
WHERE workspace_id = @workspace_id AND creating IS NOT NULL;

-- name: TerraformApplied :exec
-- The apply came to its end: of what no state names only these stay.
UPDATE terraform_runs
SET creating = (SELECT array_agg(a) FROM unnest(creating) a WHERE a IN (SELECT unnest(sqlc.arg(unsure)::text[])))
WHERE workspace_id = @workspace_id AND creating IS NOT NULL;

-- name: AppendTerraformOutput :exec
-- The oldest pieces go, so that all have no more than so many bytes.
WITH sized AS (
  SELECT o.seq, sum(octet_length(o.chunk)) OVER (ORDER BY o.seq DESC) + octet_length(sqlc.arg(chunk)::text) AS size
  FROM terraform_output o WHERE o.workspace_id = @workspace_id
), old AS (
  DELETE FROM terraform_output o USING sized
  WHERE o.workspace_id = @workspace_id AND o.seq = sized.seq AND sized.size > sqlc.arg(most)::bigint
)
INSERT INTO terraform_output (workspace_id, seq, chunk, created_at)
SELECT @workspace_id, 1 + coalesce(max(sized.seq), 0), sqlc.arg(chunk), prewarm_now() FROM sized;

-- name: TerraformOutput :many
SELECT seq, chunk FROM terraform_output WHERE workspace_id = @workspace_id AND seq > sqlc.arg(after)::bigint ORDER BY seq;

-- name: TerraformWorkIsDue :one
-- Whether a worker is at the workspace, or will be: it has more to say.
SELECT EXISTS (SELECT FROM jobs j WHERE j.workspace_id = @workspace_id AND j.state IN ('pending', 'running'));

-- name: TerraformModule :one
SELECT module, sealed_by FROM terraform_runs WHERE workspace_id = @workspace_id AND module IS NOT NULL;

-- name: TerraformModulesToReseal :many
SELECT workspace_id FROM terraform_runs WHERE sealed_by <> @key_id::text ORDER BY workspace_id;

-- name: SealedTerraformModule :one
-- No row: retention has deleted it meanwhile.
SELECT module, sealed_by FROM terraform_runs WHERE workspace_id = @workspace_id AND module IS NOT NULL FOR UPDATE;

-- name: LockTerraformModules :exec
-- One upload of an organization at a time, so that what nobody uses of it is bounded.
SELECT pg_advisory_xact_lock(1886545273, hashtext((@organization_id::uuid)::text));

-- name: UseTerraformModule :one
-- It stays for a day from now on. No row: the organization does not have it.
UPDATE terraform_modules SET used_at = prewarm_now() WHERE organization_id = @organization_id AND digest = @digest
RETURNING size, created_at;

-- name: ShowTerraformModule :one
SELECT size, created_at FROM terraform_modules WHERE organization_id = @organization_id AND digest = @digest;

-- name: UnusedTerraformModules :one
-- How many bytes an organization has of archives that no version names.
SELECT coalesce(sum(m.size), 0)::bigint FROM terraform_modules m
WHERE m.organization_id = @organization_id
  AND NOT EXISTS (SELECT FROM template_versions v JOIN templates t ON t.id = v.template_id
                  WHERE v.spec ->> 'module' = m.digest AND v.spec ->> 'module' LIKE 'sha256:%'
                    AND t.organization_id = m.organization_id AND t.deleted_at IS NULL);

-- name: InsertTerraformModule :one
INSERT INTO terraform_modules (organization_id, digest, archive, size, created_at, used_at)
VALUES (@organization_id, @digest, @archive, octet_length(@archive::bytea), prewarm_now(), prewarm_now())
RETURNING size, created_at;

-- name: TerraformArchive :one
-- For a run: its spec was checked in its organization, and the same digest is the same archive in any.
SELECT archive FROM terraform_modules WHERE digest = @digest LIMIT 1;

-- name: LockTerraformState :exec
UPDATE terraform_runs SET lock_id = @lock_id::text, lock_info = @lock_info::jsonb WHERE workspace_id = @workspace_id;

-- name: UnlockTerraformState :exec
UPDATE terraform_runs SET lock_id = NULL, lock_info = NULL WHERE workspace_id = @workspace_id;

-- name: InsertTerraformState :execrows
-- No row: there is one as new. An older one, of a request that was overtaken, must not become the newest.
INSERT INTO terraform_states (workspace_id, version, incarnation, lineage, serial, sealed, sealed_by, summary, size, md5, created_at)
SELECT @workspace_id, 1 + coalesce((SELECT max(o.version) FROM terraform_states o WHERE o.workspace_id = @workspace_id), 0),
       @incarnation, @lineage, @serial, @sealed, @sealed_by, @summary, @size, @md5, prewarm_now()
WHERE NOT EXISTS (SELECT FROM terraform_states n
                  WHERE n.workspace_id = @workspace_id AND n.lineage = @lineage AND n.serial >= @serial);

-- name: HasTerraformState :one
-- Whether the newest is that one: its answer may have been lost, and it is sent again.
SELECT EXISTS (SELECT FROM terraform_states s
               WHERE s.workspace_id = @workspace_id AND s.lineage = @lineage AND s.serial = @serial AND s.md5 = @md5
                 AND s.version = (SELECT max(n.version) FROM terraform_states n WHERE n.workspace_id = @workspace_id));

-- name: NewestTerraformState :one
SELECT * FROM terraform_states WHERE workspace_id = @workspace_id ORDER BY version DESC LIMIT 1;

-- name: TerraformSummaries :many
-- Of the newest state of each workspace, of one of that id or name where one is given. Those that say nothing is left are among
-- them: they are sealed. So are those without a state of which an apply was cut off. What that may have made is forgotten with the
-- workspace, which a person ended; where there was none, as of a check, after a week.
SELECT r.workspace_id, r.name, r.incarnation, coalesce(s.lineage, '')::text AS lineage, coalesce(s.serial, 0)::bigint AS serial,
       s.summary, coalesce(s.sealed_by, '')::text AS sealed_by, unsure.creating,
       coalesce((SELECT min(f.created_at) FROM terraform_states f WHERE f.workspace_id = r.workspace_id), r.created_at)::timestamptz AS first_at
FROM terraform_runs r
LEFT JOIN LATERAL (SELECT * FROM terraform_states n WHERE n.workspace_id = r.workspace_id ORDER BY n.version DESC LIMIT 1) s ON true
CROSS JOIN LATERAL (
  SELECT CASE WHEN r.creating IS NULL THEN '{}'
              WHEN r.job_id IS NULL AND r.creating_at > prewarm_now() - interval '7 days' THEN r.creating
              WHEN EXISTS (SELECT FROM workspaces w WHERE w.id = r.workspace_id AND w.state <> 'deleted') THEN r.creating
              ELSE '{}' END::text[] AS creating) unsure
WHERE (s.summary IS NOT NULL OR cardinality(unsure.creating) > 0)
  AND (sqlc.narg(workspace_id)::uuid IS NULL OR r.workspace_id = sqlc.narg(workspace_id))
  AND (sqlc.narg(name)::text IS NULL OR r.name = sqlc.narg(name))
ORDER BY r.workspace_id;

-- name: TerraformStatesToReseal :many
-- Those that another key sealed, without what they are: that is read one by one.
SELECT workspace_id, version FROM terraform_states WHERE sealed_by <> @key_id ORDER BY workspace_id, version;

-- name: SealedTerraformState :one
-- No row: retention has deleted it meanwhile.
SELECT * FROM terraform_states WHERE workspace_id = @workspace_id AND version = @version FOR UPDATE;

-- name: ResealTerraformState :exec
UPDATE terraform_states SET sealed = @sealed, sealed_by = @sealed_by, summary = @summary
WHERE workspace_id = @workspace_id AND version = @version;
