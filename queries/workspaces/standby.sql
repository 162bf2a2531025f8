-- The standby tier: built, stopped on purpose, started when claimed. Transitions have the shape of those in workspaces.sql.

-- name: WorkspaceStopping :one
-- ready -> standby, while nobody has claimed it. From here on no claim takes it for a running one; the stop job follows.
WITH ws AS (
  SELECT w.id, w.incarnation, w.provider, w.site FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'ready'
  FOR NO KEY UPDATE
), moved AS (
  UPDATE workspaces w SET state = 'standby', state_at = prewarm_now()
  FROM ws
  WHERE w.id = ws.id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT @next_job_id, moved.id, moved.incarnation, 'stop', ws.provider, ws.site, @priority, prewarm_now(), prewarm_now()
  FROM moved, ws
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id)
  SELECT moved.id, moved.incarnation, 'ready', 'standby', prewarm_now(), @actor_id, @reason, @next_job_id FROM moved
)
SELECT id, template_id, preset_id FROM moved;

-- name: JobStopped :execrows
-- The workspace of a stop job is stopped. It locks no workspace, so that a claim, which skips locked ones, never overlooks it.
UPDATE jobs SET state = 'done', finished_at = prewarm_now()
WHERE id = @job_id AND kind = 'stop' AND attempt = @attempt AND state = 'running';

-- name: WorkspaceStarting :one
-- standby -> starting, while nobody has claimed it. A stop under way is cancelled, and the start waits for the end of its
-- lease, since its provider call may still be running.
WITH ws AS (
  SELECT w.id, w.incarnation, w.provider, w.site FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'standby'
  FOR NO KEY UPDATE
), old_job AS (
  SELECT ws.id AS workspace_id, prewarm_cancel_job(ws.id) AS lease_end FROM ws
), moved AS (
  UPDATE workspaces w SET state = 'starting', state_at = prewarm_now()
  FROM ws LEFT JOIN old_job ON old_job.workspace_id = ws.id
  WHERE w.id = ws.id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id, old_job.lease_end
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT @next_job_id, moved.id, moved.incarnation, 'start', ws.provider, ws.site, @priority,
         greatest(prewarm_now(), moved.lease_end), prewarm_now()
  FROM moved, ws
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id)
  SELECT moved.id, moved.incarnation, 'standby', 'starting', prewarm_now(), @actor_id, @reason, @next_job_id FROM moved
)
SELECT id, template_id, preset_id FROM moved;

-- name: ClaimStandby :one
-- standby -> claimed for one claim, current versions first, then what was stopped longest ago; asked only where nothing is
-- ready. The start job is first in line. Rows that others lock are on their way out of standby, and skipped.
WITH pool AS (
  SELECT p.pool_key, p.min_remaining_s, t.keep_outdated, t.claim_lease_s
  FROM presets p JOIN templates t ON t.id = p.template_id
  WHERE p.id = @preset_id AND p.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL
), fresh AS (
  SELECT w.id FROM workspaces w
  WHERE w.state = 'standby' AND w.preset_id = @preset_id AND w.pool_key = (SELECT pool.pool_key FROM pool)
    AND (w.expires_at IS NULL OR w.expires_at > prewarm_now()
                                   + (SELECT pool.min_remaining_s FROM pool) * interval '1 second')
  ORDER BY w.state_at, w.id
  LIMIT 1
  FOR NO KEY UPDATE SKIP LOCKED
), outdated AS (
  SELECT w.id FROM workspaces w
  WHERE w.state = 'standby' AND w.preset_id = @preset_id AND (SELECT pool.keep_outdated FROM pool)
    AND (SELECT count(*) FROM fresh) = 0
    AND (w.expires_at IS NULL OR w.expires_at > prewarm_now()
                                   + (SELECT pool.min_remaining_s FROM pool) * interval '1 second')
  ORDER BY w.state_at, w.id
  LIMIT 1
  FOR NO KEY UPDATE SKIP LOCKED
), picked AS (
  SELECT fresh.id FROM fresh UNION ALL SELECT outdated.id FROM outdated
), old_job AS (
  SELECT picked.id AS workspace_id, prewarm_cancel_job(picked.id) AS lease_end FROM picked
), moved AS (
  UPDATE workspaces w
  SET state = 'claimed', state_at = prewarm_now(), claimed_at = prewarm_now(), owner_id = @user_id,
      claim_id = @claim_id::uuid
  FROM picked
  WHERE w.id = picked.id
  RETURNING w.*
), agent AS ( -- not silent, for it is not there yet
  UPDATE agents a SET status = 'expected', message = '', heartbeat_at = NULL
  FROM moved
  WHERE a.workspace_id = moved.id AND a.incarnation = moved.incarnation
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT @next_job_id, moved.id, moved.incarnation, 'start', moved.provider, moved.site, @priority,
         greatest(prewarm_now(), old_job.lease_end), prewarm_now()
  FROM moved LEFT JOIN old_job ON old_job.workspace_id = moved.id
), claim AS (
  INSERT INTO claims (id, organization_id, preset_id, user_id, idempotency_key, mode, state, outcome, workspace_id,
                      incarnation, created_at, bound_at, from_standby, lease_s, lease_until)
  SELECT @claim_id::uuid, moved.organization_id, moved.preset_id, @user_id, sqlc.narg(idempotency_key), @mode, 'bound',
         'hit', moved.id, moved.incarnation, prewarm_now(), prewarm_now(), true,
         coalesce(sqlc.narg(lease_s)::integer, pool.claim_lease_s),
         prewarm_now() + coalesce(sqlc.narg(lease_s)::integer, pool.claim_lease_s) * interval '1 second'
  FROM moved, pool
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id)
  SELECT moved.id, moved.incarnation, 'standby', 'claimed', prewarm_now(), @user_id, 'claimed', @next_job_id FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, after, source)
  SELECT prewarm_now(), @user_id, moved.organization_id, 'workspace.claim', 'workspace', moved.id::text, moved.name,
         jsonb_build_object('claim_id', @claim_id::uuid, 'standby', true), @source
  FROM moved
)
SELECT * FROM moved;

-- name: WorkspaceStarted :one
-- starting -> starting, or claimed -> claimed: it runs again. The probe job that asks for its readiness follows, as urgent
-- as the start was, and the boot timeout of one of the pool runs from here.
WITH ws AS (
  SELECT w.id, w.incarnation, w.provider, w.state FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state IN ('starting', 'claimed')
  FOR NO KEY UPDATE
), job AS (
  UPDATE jobs j SET state = 'done', finished_at = prewarm_now(),
                    last_error = CASE WHEN j.failures > 0 THEN j.last_error ELSE '' END
  FROM ws
  WHERE j.id = @job_id AND j.kind = 'start' AND j.attempt = @attempt AND j.state = 'running' AND j.workspace_id = ws.id
  RETURNING j.workspace_id, j.site, j.priority
), moved AS (
  UPDATE workspaces w SET state_at = CASE WHEN ws.state = 'starting' THEN prewarm_now() ELSE w.state_at END
  FROM ws, job
  WHERE w.id = job.workspace_id AND ws.id = w.id
  RETURNING w.id, w.state
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT @next_job_id, ws.id, ws.incarnation, 'probe', ws.provider, job.site, job.priority, prewarm_now(), prewarm_now()
  FROM ws, job
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id, attempt)
  SELECT ws.id, ws.incarnation, ws.state, ws.state, prewarm_now(), @actor_id, 'started', @job_id, @attempt FROM ws, job
)
SELECT id, state FROM moved;

-- name: ClaimStarted :one
-- claimed -> claimed: what was claimed out of standby can be used.
WITH ws AS (
  SELECT w.id FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'claimed'
  FOR NO KEY UPDATE
), job AS (
  UPDATE jobs j SET state = 'done', finished_at = prewarm_now(), last_error = ''
  FROM ws
  WHERE j.id = @job_id AND j.kind = 'probe' AND j.attempt = @attempt AND j.state = 'running' AND j.workspace_id = ws.id
  RETURNING j.workspace_id
), moved AS (
  UPDATE workspaces w SET addresses = @addresses, environment = @environment,
      os_name = CASE WHEN @os_name::text = '' THEN w.os_name ELSE @os_name::text END,
      os_version = CASE WHEN @os_version::text = '' THEN w.os_version ELSE @os_version::text END
  FROM job
  WHERE w.id = job.workspace_id
  RETURNING w.id, w.incarnation, w.claimed_at
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id, attempt)
  SELECT moved.id, moved.incarnation, 'claimed', 'claimed', prewarm_now(), @actor_id, 'started for its claim', @job_id,
         @attempt
  FROM moved
)
SELECT id, coalesce(extract(epoch FROM prewarm_now() - claimed_at), 0)::double precision AS took_s FROM moved;

-- name: ClaimNotStarted :one
-- claimed -> claimed, with a fault: it could not be started, or not be handed over. It is left to its owner (I2).
WITH ws AS (
  SELECT w.id FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'claimed'
  FOR NO KEY UPDATE
), job AS (
  UPDATE jobs j SET state = 'failed', finished_at = prewarm_now(), last_error = @fault, failures = j.failures + 1
  FROM ws
  WHERE j.id = @job_id AND j.kind IN ('start', 'probe', 'handover') AND j.attempt = @attempt AND j.state = 'running'
    AND j.workspace_id = ws.id
  RETURNING j.workspace_id
), moved AS (
  UPDATE workspaces w SET fault = @fault
  FROM job
  WHERE w.id = job.workspace_id
  RETURNING w.id, w.incarnation, w.name, w.template_id, w.preset_id
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id, attempt)
  SELECT moved.id, moved.incarnation, 'claimed', 'claimed', prewarm_now(), @actor_id, @fault, @job_id, @attempt FROM moved
)
SELECT id, template_id, preset_id FROM moved;

-- name: ClaimStartAgain :one
-- claimed -> claimed: a worker that had lost its lease has stopped it all the same. A start that is under way may have come
-- before that, so it is cancelled, and another follows.
WITH ws AS (
  SELECT w.id, w.incarnation, w.provider, w.site FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'claimed'
  FOR NO KEY UPDATE
), old_job AS (
  SELECT ws.id AS workspace_id, prewarm_cancel_job(ws.id) AS lease_end FROM ws
), moved AS (
  UPDATE workspaces w SET fault = ''
  FROM ws LEFT JOIN old_job ON old_job.workspace_id = ws.id
  WHERE w.id = ws.id
  RETURNING w.id, old_job.lease_end
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT @next_job_id, ws.id, ws.incarnation, 'start', ws.provider, ws.site, @priority,
         greatest(prewarm_now(), moved.lease_end), prewarm_now()
  FROM ws, moved
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id)
  SELECT ws.id, ws.incarnation, 'claimed', 'claimed', prewarm_now(), @actor_id, @reason, @next_job_id FROM ws
)
SELECT id FROM moved;
