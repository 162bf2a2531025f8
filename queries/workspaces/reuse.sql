-- What comes back into a pool without having been planned: a released workspace that serves again, and a quarantined one
-- that a person wants tried anew. I3 must hold for them too, so both go through the pass's fence: MarkReturn first, then
-- RoomFor, then the transition, in one READ COMMITTED transaction. A pass that has planned already is waited for, and
-- what it wrote is seen; one that has not yet fails on its fence and plans on what is true then.

-- name: SetReturnTimeout :exec
-- A pass may take long, and people do not wait for one: what cannot have the fence in time goes the usual way.
SELECT set_config('lock_timeout', @milliseconds::text, true);

-- name: MarkReturn :exec
UPDATE reconcile_fence SET returns = returns + 1;

-- name: TakePlace :exec
-- Of what passes may spend of a maximum until one counts again: what was gone takes its place again. Under the fence, as
-- passes write it.
UPDATE headroom h SET instances = greatest(0, h.instances - 1)
FROM workspaces w WHERE w.id = @workspace_id AND h.provider = w.provider;

-- name: RoomFor :one
-- Whether the workspace's pool would want it. Wanted is as in C5: what is desired (now, and by what the last pass made of it,
-- whichever is less; of `instances: all`, whatever comes back) and what is waited for by claims that an old one serves. Has is
-- what a pass would count as actual and starting.
SELECT (w.pool_key = p.pool_key AND p.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL
        AND pr.deleted_at IS NULL)::boolean AS current,
       EXISTS (SELECT FROM preset_pauses pa WHERE pa.preset_id = p.id)::boolean AS paused,
       (CASE WHEN d.takes_all THEN has.n + 1 ELSE least(d.desired, (s.counts ->> 'desired')::int) END
        + (SELECT count(*) FROM claims c
           WHERE c.preset_id = p.id AND c.state = 'waiting' AND c.deadline_at > prewarm_now()
            AND NOT c.cold))::int AS wanted,
       has.n::int AS has,
       (w.gone_at IS NOT NULL)::boolean AS gone,
       -- With this one in its place, also if it is gone and would be made again.
       (pr.maximum > 0
        AND prewarm_places(w.provider)
          + (w.gone_at IS NOT NULL AND w.state IN ('claimed', 'quarantined', 'draining', 'deleting'))::int > pr.maximum)::boolean AS beyond_maximum
FROM workspaces w
JOIN presets p ON p.id = w.preset_id
JOIN templates t ON t.id = p.template_id
JOIN providers pr ON pr.name = w.provider
JOIN desired_prebuilds d ON d.preset_id = p.id
LEFT JOIN preset_status s ON s.preset_id = p.id
CROSS JOIN LATERAL (
  SELECT count(*) AS n FROM unclaimed_workspaces o
  WHERE o.template_id = p.template_id AND o.preset_id = p.id AND o.class IN ('actual', 'starting')
) has
WHERE w.id = @workspace_id;

-- name: WorkspaceReused :one
-- claimed -> starting in the next incarnation, and the claim is over. The reset job makes it like new, and until it has
-- nothing of the claim before is told to anybody. No row: it is not claimed in that incarnation, or has served enough.
WITH ws AS (
  SELECT w.id, w.incarnation, w.provider, w.site, w.name, w.organization_id, w.claim_id FROM workspaces w
  JOIN templates t ON t.id = w.template_id
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'claimed' AND w.incarnation < t.max_uses
  FOR NO KEY UPDATE OF w
), old_job AS (
  SELECT ws.id AS workspace_id, prewarm_cancel_job(ws.id) AS lease_end FROM ws
), moved AS (
  UPDATE workspaces w
  SET state = 'starting', state_at = prewarm_now(), incarnation = w.incarnation + 1, owner_id = @prewarm_id, claim_id = NULL,
      claimed_at = NULL, ready_at = NULL, expires_at = NULL, addresses = '[]', environment = '{}', gone_at = NULL
  FROM ws LEFT JOIN old_job ON old_job.workspace_id = ws.id
  WHERE w.id = ws.id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id, old_job.lease_end
), claim AS (
  UPDATE claims c SET state = 'released', released_at = prewarm_now()
  FROM ws
  WHERE c.id = ws.claim_id AND c.state = 'bound'
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT @next_job_id, moved.id, moved.incarnation, 'reset', ws.provider, ws.site, @priority,
         greatest(prewarm_now(), moved.lease_end), prewarm_now()
  FROM moved, ws
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id)
  SELECT moved.id, moved.incarnation, 'claimed', 'starting', prewarm_now(), @actor_id, @reason, @next_job_id FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, before, after,
                         reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.release', 'workspace', ws.id::text, ws.name,
         jsonb_build_object('state', 'claimed', 'claim_id', ws.claim_id, 'incarnation', ws.incarnation),
         jsonb_build_object('state', 'starting', 'incarnation', moved.incarnation), @reason, @source
  FROM moved, ws
)
SELECT id, template_id, preset_id FROM moved;

-- name: WorkspaceReset :one
-- starting -> starting, like new. The probe job follows, and the boot timeout runs from here.
WITH ws AS (
  SELECT w.id, w.incarnation, w.provider FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'starting'
  FOR NO KEY UPDATE
), job AS (
  UPDATE jobs j SET state = 'done', finished_at = prewarm_now(), last_error = ''
  FROM ws
  WHERE j.id = @job_id AND j.kind = 'reset' AND j.attempt = @attempt AND j.state = 'running' AND j.workspace_id = ws.id
  RETURNING j.workspace_id, j.site, j.priority
), moved AS (
  UPDATE workspaces w
  SET state_at = prewarm_now(), provider_id = @provider_id, addresses = @addresses, environment = @environment,
      os_name = CASE WHEN @os_name::text = '' THEN w.os_name ELSE @os_name::text END,
      os_version = CASE WHEN @os_version::text = '' THEN w.os_version ELSE @os_version::text END
  FROM job
  WHERE w.id = job.workspace_id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT @next_job_id, moved.id, moved.incarnation, 'probe', ws.provider, job.site, job.priority, prewarm_now(),
         prewarm_now()
  FROM moved, ws, job
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id, attempt)
  SELECT moved.id, moved.incarnation, 'starting', 'starting', prewarm_now(), @actor_id, 'reset', @job_id, @attempt
  FROM moved
)
SELECT id, template_id, preset_id FROM moved;

-- name: WorkspaceResetFailed :one
-- starting -> deleting: it could not be made like new. It is never kept, since what is in it is of the claim before; and
-- it is no failed create, so the streak stays.
WITH ws AS (
  SELECT w.id, w.incarnation, w.provider FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'starting'
  FOR NO KEY UPDATE
), job AS (
  UPDATE jobs j SET state = 'failed', finished_at = prewarm_now(), last_error = @fault, failures = j.failures + 1
  FROM ws
  WHERE j.id = @job_id AND j.kind = 'reset' AND j.attempt = @attempt AND j.state = 'running' AND j.workspace_id = ws.id
  RETURNING j.workspace_id, j.site, j.priority
), moved AS (
  UPDATE workspaces w SET state = 'deleting', state_at = prewarm_now(), fault = @fault
  FROM job
  WHERE w.id = job.workspace_id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT @next_job_id, moved.id, moved.incarnation, 'delete', ws.provider, job.site, job.priority, prewarm_now(),
         prewarm_now()
  FROM moved, ws, job
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id, attempt)
  SELECT moved.id, moved.incarnation, 'starting', 'deleting', prewarm_now(), @actor_id, @fault, @job_id, @attempt
  FROM moved
)
SELECT id, template_id, preset_id FROM moved;
