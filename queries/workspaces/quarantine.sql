-- What inventories, people and a restore put in quarantine, and its ends: tried anew by a person, or kept for long enough.

-- name: WorkspaceRetried :one
-- quarantined -> starting where the provider has made it, to be asked for readiness again; else -> provisioning, to be
-- created anew. The create goes on counting where the one before ended: its attempt is beyond all tokens of before (G7),
-- and as one that has failed it deletes by name what may be left.
WITH ws AS (
  SELECT w.id, w.incarnation, w.provider, w.site, w.name, w.organization_id, w.provider_id, w.fault FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'quarantined'
  FOR NO KEY UPDATE
), moved AS (
  UPDATE workspaces w
  SET state = CASE WHEN ws.provider_id = '' THEN 'provisioning'::workspace_state ELSE 'starting' END,
      state_at = prewarm_now(), fault = '', expires_at = NULL, ready_at = NULL, gone_at = NULL
  FROM ws
  WHERE w.id = ws.id
  RETURNING w.id, w.incarnation, w.state, w.template_id, w.preset_id
), agent AS (
  UPDATE agents a SET status = 'expected', message = ''
  FROM moved
  WHERE a.workspace_id = moved.id AND a.incarnation = moved.incarnation
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at, attempt, failures)
  SELECT @next_job_id, moved.id, moved.incarnation,
         CASE WHEN moved.state = 'provisioning' THEN 'create'::job_kind ELSE 'probe' END,
         ws.provider, ws.site, @priority, prewarm_now(), prewarm_now(),
         CASE WHEN moved.state = 'provisioning' THEN coalesce((
           SELECT max(j.attempt) FROM jobs j WHERE j.workspace_id = ws.id AND j.kind = 'create'), 0) ELSE 0 END,
         CASE WHEN moved.state = 'provisioning' THEN 1 ELSE 0 END
  FROM moved, ws
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id)
  SELECT moved.id, moved.incarnation, 'quarantined', moved.state, prewarm_now(), @actor_id, @reason, @next_job_id
  FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, before, after,
                         reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.retry', 'workspace', ws.id::text, ws.name,
         jsonb_build_object('state', 'quarantined', 'fault', ws.fault), jsonb_build_object('state', moved.state),
         @reason, @source
  FROM moved, ws
)
SELECT id, template_id, preset_id FROM moved;

-- name: WorkspaceKept :one
-- starting, ready, standby -> quarantined: a person wants to look into it. One that is quarantined stays so, for so long from
-- now on. Not while it is being reset: what is in it may be of the claim before. As with a missing one, what was being done
-- to it is cancelled.
WITH ws AS (
  SELECT w.id, w.state, w.incarnation, w.name, w.organization_id, w.fault, w.expires_at FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation
    AND w.state IN ('starting', 'ready', 'standby', 'quarantined')
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.workspace_id = w.id AND j.kind = 'reset' AND j.state IN ('pending', 'running'))
  FOR NO KEY UPDATE OF w
), old_job AS (
  SELECT ws.id AS workspace_id, prewarm_cancel_job(ws.id) AS lease_end FROM ws
), moved AS (
  UPDATE workspaces w
  SET state = 'quarantined', fault = CASE WHEN ws.fault = '' THEN @reason ELSE ws.fault END,
      state_at = CASE WHEN ws.state = 'quarantined' THEN w.state_at ELSE prewarm_now() END,
      expires_at = prewarm_now() + sqlc.arg(keep_s)::double precision * interval '1 second'
  FROM ws LEFT JOIN old_job ON old_job.workspace_id = ws.id
  WHERE w.id = ws.id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id, w.expires_at
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT moved.id, moved.incarnation, ws.state, 'quarantined', prewarm_now(), @actor_id, @reason FROM moved, ws
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, before, after,
                         reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.keep', 'workspace', ws.id::text, ws.name,
         jsonb_build_object('state', ws.state, 'expires_at', ws.expires_at),
         jsonb_build_object('state', 'quarantined', 'expires_at', moved.expires_at), @reason, @source
  FROM moved, ws
)
SELECT id, template_id, preset_id FROM moved;

-- name: WorkspaceMissing :one
-- starting, ready, standby -> quarantined: two inventories agree that the provider has nothing of it, or that what it has
-- contradicts the row. It was in that state before the last of them began, and nothing is being made of it. Gone: the
-- provider has nothing of it, so that it takes no place there.
WITH ws AS (
  SELECT w.id, w.state, w.incarnation, w.name, w.organization_id FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state IN ('starting', 'ready', 'standby')
    AND w.state_at < @seen_at
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.workspace_id = w.id AND j.kind = 'reset' AND j.state IN ('pending', 'running'))
  FOR NO KEY UPDATE OF w
), old_job AS (
  SELECT ws.id AS workspace_id, prewarm_cancel_job(ws.id) AS lease_end FROM ws
), moved AS (
  UPDATE workspaces w
  SET state = 'quarantined', state_at = prewarm_now(), fault = @fault,
      expires_at = prewarm_now() + sqlc.arg(keep_s)::double precision * interval '1 second',
      gone_at = CASE WHEN @gone::boolean THEN prewarm_now() END
  FROM ws LEFT JOIN old_job ON old_job.workspace_id = ws.id
  WHERE w.id = ws.id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT moved.id, moved.incarnation, ws.state, 'quarantined', prewarm_now(), @actor_id, @fault FROM moved, ws
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, before, after,
                         reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.quarantine', 'workspace', ws.id::text, ws.name,
         jsonb_build_object('state', ws.state), jsonb_build_object('state', 'quarantined'), @fault, @source
  FROM moved, ws
)
SELECT id, template_id, preset_id FROM moved;

-- name: WorkspaceKnownGone :one
-- Of one that is claimed or quarantined: two inventories agree that the provider has nothing of it. It was in that state
-- before the last of them began, and nothing is being made of it. No state moves.
UPDATE workspaces w SET gone_at = prewarm_now()
WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state IN ('claimed', 'quarantined')
  AND w.gone_at IS NULL AND w.state_at < @seen_at
  AND NOT EXISTS (SELECT FROM jobs j WHERE j.workspace_id = w.id AND j.state IN ('pending', 'running'))
RETURNING w.id, w.template_id, w.preset_id;

-- name: WorkspaceSeenAgain :one
-- Of one that was gone: a listing that began later has it. No state moves.
UPDATE workspaces w SET gone_at = NULL
WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.gone_at < @seen_at
RETURNING w.id, w.template_id, w.preset_id;

-- name: WorkspaceVanished :one
-- deleting -> deleted: two inventories agree that the provider has nothing of it, though deleting it fails. Not while a
-- worker is at it.
WITH ws AS (
  SELECT w.id, w.incarnation, w.name, w.organization_id FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'deleting' AND w.state_at < @seen_at
  FOR NO KEY UPDATE
), job AS (
  UPDATE jobs j SET state = 'cancelled', finished_at = prewarm_now()
  FROM ws
  WHERE j.workspace_id = ws.id AND j.kind = 'delete' AND j.state = 'pending' AND j.failures > 0
  RETURNING j.workspace_id
), moved AS (
  UPDATE workspaces w SET state = 'deleted', state_at = prewarm_now(), deleted_at = prewarm_now()
  FROM job
  WHERE w.id = job.workspace_id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT moved.id, moved.incarnation, 'deleting', 'deleted', prewarm_now(), @actor_id, @reason FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.deleted', 'workspace', ws.id::text, ws.name, @reason,
         @source
  FROM moved, ws
)
SELECT id, template_id, preset_id FROM moved;

-- name: WorkspaceAdopted :one
-- The provider has a resource with this workspace's tags, whose id was never recorded: it is recorded now. No state moves.
WITH ws AS (
  SELECT w.id, w.name, w.organization_id FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.provider_id = ''
    AND w.state IN ('starting', 'ready', 'standby', 'claimed', 'draining', 'deleting', 'quarantined')
  FOR NO KEY UPDATE
), moved AS (
  UPDATE workspaces w SET provider_id = @provider_id
  FROM ws
  WHERE w.id = ws.id
  RETURNING w.id, w.template_id, w.preset_id
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, after, reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.adopt', 'workspace', ws.id::text, ws.name,
         jsonb_build_object('provider_id', @provider_id::text), @reason, @source
  FROM moved, ws
)
SELECT id, template_id, preset_id FROM moved;

-- name: QuarantineRestored :many
-- What was unclaimed at the time of the backup may have been claimed since: it is neither handed out nor deleted. Its jobs
-- and intents end.
WITH ws AS (
  SELECT w.id, w.state, w.incarnation, w.name, w.organization_id
  FROM workspaces w
  WHERE w.state IN ('provisioning', 'starting', 'ready', 'standby')
  FOR NO KEY UPDATE
), old_jobs AS (
  UPDATE jobs j SET state = 'cancelled', finished_at = prewarm_now()
  FROM ws
  WHERE j.workspace_id = ws.id AND j.state IN ('pending', 'running')
), moved AS (
  UPDATE workspaces w SET state = 'quarantined', state_at = prewarm_now(), fault = @reason,
    expires_at = NULL -- no end of keeping: only a person may delete what may be somebody's
  FROM ws
  WHERE w.id = ws.id
  RETURNING w.id, w.incarnation, w.name
), dropped AS (
  DELETE FROM intents i USING ws WHERE i.workspace_id = ws.id
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT ws.id, ws.incarnation, ws.state, 'quarantined', prewarm_now(), @actor_id, @reason FROM ws
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.quarantine', 'workspace', ws.id::text, ws.name, @reason,
         @source
  FROM ws
)
SELECT name FROM moved ORDER BY name;
