-- The ends of quarantine: tried anew by a person, or kept for long enough.

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
      state_at = prewarm_now(), fault = '', expires_at = NULL, ready_at = NULL
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

-- name: ExpiredQuarantine :many
-- Those that were kept for long enough, the longest first.
SELECT id, incarnation, template_id FROM workspaces
WHERE state = 'quarantined' AND expires_at <= prewarm_now()
ORDER BY expires_at LIMIT @max_workspaces;
