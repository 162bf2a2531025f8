-- Transitions of DESIGN section 4: one statement each, called only by coderd/workspaces. Every one has the same shape:
--
--   ws     locks the workspace and names the state and incarnation it must leave; no row is a lost race
--   job    ends the job that led here, by id and attempt, or cancels the one under way
--   moved  writes the new state
--   next   the job that the new state calls for
--   hist   the row of history
--
-- The order of locks is workspace, then job, everywhere. Binding a waiting claim locks the claim, then a workspace that
-- nobody holds (SKIP LOCKED), so it never waits for a workspace while it holds a claim.

-- name: WorkspacesPlanned :exec
-- New workspaces with their create jobs, history and audit, for any number of presets at once. Called only by a pass, on
-- its snapshot, so that what is joined here is what was planned on.
WITH new AS (
  SELECT unnest(@ids::uuid[]) AS id, unnest(@names::text[]) AS name, unnest(@preset_ids::uuid[]) AS preset_id,
         unnest(@job_ids::uuid[]) AS job_id, unnest(@priorities::integer[]) AS priority,
         unnest(@reasons::text[]) AS reason
), ws AS (
  INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id, pool_key, provider,
                          parameters, state, owner_id, created_at, state_at)
  SELECT new.id, new.name, p.organization_id, p.template_id, t.active_version_id, p.id, p.pool_key, t.provider,
         p.parameters, 'provisioning', @actor_id, prewarm_now(), prewarm_now()
  FROM new
  JOIN presets p ON p.id = new.preset_id
  JOIN templates t ON t.id = p.template_id
  RETURNING id, name, organization_id, provider, incarnation
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, priority, due_at, created_at)
  SELECT new.job_id, ws.id, ws.incarnation, 'create', ws.provider, new.priority, prewarm_now(), prewarm_now()
  FROM ws JOIN new ON new.id = ws.id
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, to_state, at, actor_id, reason, job_id)
  SELECT ws.id, ws.incarnation, 'provisioning', prewarm_now(), @actor_id, new.reason, new.job_id
  FROM ws JOIN new ON new.id = ws.id
)
INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, reason, source)
SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.create', 'workspace', ws.id::text, ws.name, new.reason,
       @source
FROM ws JOIN new ON new.id = ws.id;

-- name: WorkspaceCreated :one
-- provisioning -> starting. The history shows what the create had met before it succeeded.
WITH ws AS (
  SELECT w.id, w.state, w.incarnation, w.provider FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'provisioning'
  FOR NO KEY UPDATE
), job AS (
  UPDATE jobs j SET state = 'done', finished_at = prewarm_now(),
                    last_error = CASE WHEN j.failures > 0 THEN j.last_error ELSE '' END
  FROM ws
  WHERE j.id = @job_id AND j.attempt = @attempt AND j.state = 'running' AND j.workspace_id = ws.id
  RETURNING j.workspace_id, j.site, j.priority
), moved AS (
  UPDATE workspaces w
  SET state = 'starting', state_at = prewarm_now(), provider_id = @provider_id, addresses = @addresses,
      environment = @environment, os_name = @os_name, os_version = @os_version, site = job.site
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
  SELECT moved.id, moved.incarnation, 'provisioning', 'starting', prewarm_now(), @actor_id, 'created', @job_id, @attempt
  FROM moved
)
SELECT id, template_id, preset_id FROM moved;

-- name: WorkspaceReady :one
-- starting -> ready. The TTL runs from here, less a jitter that is a fraction by the workspace's id, so that what became
-- ready together does not expire together (C9); and the streak of failures ends. What was ready before, and was silent or
-- stopped meanwhile, says nothing about creates; and stopping and starting one prolongs no life.
WITH ws AS (
  SELECT w.id, w.ready_at IS NULL AS first FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'starting'
  FOR NO KEY UPDATE
), job AS (
  UPDATE jobs j SET state = 'done', finished_at = prewarm_now(), last_error = ''
  FROM ws
  WHERE j.id = @job_id AND j.kind = 'probe' AND j.attempt = @attempt AND j.state = 'running' AND j.workspace_id = ws.id
  RETURNING j.workspace_id
), moved AS (
  UPDATE workspaces w
  SET state = 'ready', state_at = prewarm_now(), ready_at = prewarm_now(), addresses = @addresses,
      environment = @environment, os_name = CASE WHEN @os_name::text = '' THEN w.os_name ELSE @os_name::text END,
      os_version = CASE WHEN @os_version::text = '' THEN w.os_version ELSE @os_version::text END,
      expires_at = coalesce(w.expires_at, prewarm_now() + p.ttl_s * interval '1 second'
        * (1 - p.ttl_jitter / 100.0 * ('x' || right(w.id::text, 6))::bit(24)::integer / 16777216.0))
  FROM job, presets p
  WHERE w.id = job.workspace_id AND p.id = w.preset_id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id, w.pool_key
), streak AS (
  DELETE FROM preset_failures f USING moved, ws
  WHERE f.preset_id = moved.preset_id AND f.pool_key = moved.pool_key AND ws.first
), proof AS (
  INSERT INTO pool_proofs (preset_id, pool_key, ready_at)
  SELECT moved.preset_id, moved.pool_key, prewarm_now() FROM moved
  ON CONFLICT DO NOTHING
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id, attempt)
  SELECT moved.id, moved.incarnation, 'starting', 'ready', prewarm_now(), @actor_id, @reason, @job_id, @attempt
  FROM moved
)
SELECT id, template_id, preset_id FROM moved;

-- name: LockFailuresOf :exec
-- Failures of one preset are recorded one by one where some of them are kept, so that the limit is exact. Nobody who
-- holds a workspace waits for this.
SELECT pg_advisory_xact_lock(1886545272, hashtext((@preset_id::uuid)::text));

-- name: WorkspaceFailed :one
-- provisioning -> deleting, or starting -> draining: it will never become ready. The fault is kept. Where the template
-- keeps failures and has fewer of this preset, it goes -> quarantined, with what the provider has of its output.
--
-- The streak grows if what failed was begun after it last grew: failures side by side are one (C8).
WITH ws AS (
  SELECT w.id, w.state, w.incarnation, w.provider, t.keep_failures_s,
         CASE WHEN w.incarnation = 1 THEN w.created_at ELSE w.state_at END AS began_at,
         t.keep_failures > (SELECT count(*) FROM workspaces q
                            WHERE q.template_id = w.template_id AND q.preset_id = w.preset_id
                              AND q.state NOT IN ('claimed', 'deleted') AND q.state = 'quarantined') AS keep
  FROM workspaces w
  JOIN templates t ON t.id = w.template_id
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state IN ('provisioning', 'starting')
  FOR NO KEY UPDATE OF w
), job AS (
  UPDATE jobs j SET state = 'failed', finished_at = prewarm_now(), last_error = @fault, failures = j.failures + 1
  FROM ws
  WHERE j.id = @job_id AND j.kind <> 'reset' AND j.attempt = @attempt AND j.state = 'running' AND j.workspace_id = ws.id
  RETURNING j.workspace_id, j.site, j.priority
), moved AS (
  UPDATE workspaces w
  SET state = CASE WHEN ws.keep THEN 'quarantined'::workspace_state
                   WHEN ws.state = 'provisioning' THEN 'deleting' ELSE 'draining' END,
      expires_at = CASE WHEN ws.keep THEN prewarm_now() + ws.keep_failures_s * interval '1 second' ELSE w.expires_at END,
      state_at = prewarm_now(), fault = @fault, site = job.site,
      provider_id = CASE WHEN w.provider_id = '' THEN @provider_id ELSE w.provider_id END
  FROM job, ws
  WHERE w.id = job.workspace_id AND ws.id = w.id
  RETURNING w.id, w.incarnation, w.state, w.template_id, w.preset_id, w.pool_key, w.created_at, w.name,
            w.template_version_id
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT @next_job_id, moved.id, moved.incarnation,
         CASE WHEN moved.state = 'deleting' THEN 'delete'::job_kind ELSE 'drain' END,
         ws.provider, job.site, job.priority, prewarm_now(), prewarm_now()
  FROM moved, ws, job
  WHERE moved.state <> 'quarantined'
), evidence AS (
  INSERT INTO failure_logs (workspace_id, log, created_at)
  SELECT moved.id, @log::text, prewarm_now() FROM moved WHERE @log::text <> ''
  ON CONFLICT (workspace_id) DO UPDATE SET log = excluded.log, created_at = excluded.created_at
), streak AS (
  INSERT INTO preset_failures AS f (preset_id, pool_key, streak, permanent, last_error, first_at, last_at, counted_at)
  SELECT moved.preset_id, moved.pool_key, 1, (@permanent::boolean)::integer, @headline,
         prewarm_now(), prewarm_now(), prewarm_now()
  FROM moved
  ON CONFLICT (preset_id, pool_key) DO UPDATE
    SET streak = f.streak + CASE WHEN f.counted_at > (SELECT ws.began_at FROM ws) THEN 0 ELSE 1 END,
        permanent = f.permanent + CASE WHEN f.counted_at > (SELECT ws.began_at FROM ws) THEN 0 ELSE excluded.permanent END,
        counted_at = CASE WHEN f.counted_at > (SELECT ws.began_at FROM ws) THEN f.counted_at ELSE excluded.counted_at END,
        last_error = excluded.last_error, last_at = excluded.last_at
), causes AS (
  INSERT INTO preset_failure_causes AS c (preset_id, cause, count, permanent, first_at, last_at, last_fault,
                                          last_workspace, last_version)
  SELECT moved.preset_id, @cause, 1, @permanent::boolean, prewarm_now(), prewarm_now(), @last_fault, moved.name,
         v.number
  FROM moved JOIN template_versions v ON v.id = moved.template_version_id
  ON CONFLICT (preset_id, cause) DO UPDATE
    SET count = c.count + 1, permanent = excluded.permanent, last_at = excluded.last_at,
        last_fault = excluded.last_fault, last_workspace = excluded.last_workspace, last_version = excluded.last_version
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id, attempt)
  SELECT moved.id, moved.incarnation, ws.state, moved.state, prewarm_now(), @actor_id, @fault, @job_id, @attempt
  FROM moved, ws
)
SELECT id, template_id, preset_id, state FROM moved;

-- name: WorkspaceSilent :one
-- ready -> starting: its agent has not been heard of, so it may recover until the boot timeout. The heartbeat is looked
-- at again under the lock.
WITH ws AS (
  SELECT w.id, w.incarnation, w.provider, w.site FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'ready'
  FOR NO KEY UPDATE
), agent AS (
  UPDATE agents a SET status = 'silent', recoveries = a.recoveries + 1
  FROM ws
  WHERE a.workspace_id = ws.id AND a.incarnation = ws.incarnation
    AND a.heartbeat_at < prewarm_now() - a.heartbeat_timeout_s * interval '1 second'
  RETURNING a.workspace_id
), moved AS (
  UPDATE workspaces w SET state = 'starting', state_at = prewarm_now()
  FROM agent
  WHERE w.id = agent.workspace_id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT @next_job_id, moved.id, moved.incarnation, 'probe', ws.provider, ws.site, @priority, prewarm_now(),
         prewarm_now()
  FROM moved, ws
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT moved.id, moved.incarnation, 'ready', 'starting', prewarm_now(), @actor_id, @reason FROM moved
)
SELECT id, template_id, preset_id FROM moved;

-- name: WorkspaceDraining :one
-- starting, ready, standby, quarantined (or claimed, for a person or a release) -> draining. A job under way is
-- cancelled; what follows waits for the end of its lease, since its provider call may still be running. A claim that
-- held it is released.
WITH ws AS (
  SELECT w.id, w.state, w.incarnation, w.provider, w.site, w.name, w.organization_id, w.claim_id FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = ANY ((@from_states::text[])::workspace_state[])
  FOR NO KEY UPDATE
), old_job AS (
  SELECT ws.id AS workspace_id, prewarm_cancel_job(ws.id) AS lease_end FROM ws
), moved AS (
  UPDATE workspaces w SET state = 'draining', state_at = prewarm_now()
  FROM ws LEFT JOIN old_job ON old_job.workspace_id = ws.id
  WHERE w.id = ws.id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id, old_job.lease_end
), claim AS (
  UPDATE claims c SET state = 'released', released_at = prewarm_now()
  FROM ws
  WHERE ws.state = 'claimed' AND c.id = ws.claim_id AND c.state = 'bound'
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at, force)
  SELECT @next_job_id, moved.id, moved.incarnation, 'drain', ws.provider, ws.site, @priority,
         greatest(prewarm_now(), moved.lease_end), prewarm_now(), @force
  FROM moved, ws
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT moved.id, moved.incarnation, ws.state, 'draining', prewarm_now(), @actor_id, @reason FROM moved, ws
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, before, after,
                         reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, @action, 'workspace', ws.id::text, ws.name,
         jsonb_build_object('state', ws.state, 'claim_id', ws.claim_id), jsonb_build_object('state', 'draining'),
         @reason, @source
  FROM moved, ws
)
SELECT id, template_id, preset_id FROM moved;

-- name: WorkspaceCancelled :one
-- provisioning -> deleted if its create was never leased, else -> deleting: what the create may have made, or still
-- makes until its lease ends, is deleted by name.
WITH ws AS (
  SELECT w.id, w.state, w.incarnation, w.provider, w.name, w.organization_id FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'provisioning'
  FOR NO KEY UPDATE
), old_job AS (
  UPDATE jobs j SET state = 'cancelled', finished_at = prewarm_now()
  FROM ws
  WHERE j.workspace_id = ws.id AND j.state IN ('pending', 'running')
  RETURNING j.workspace_id, j.attempt, j.site, CASE WHEN j.leased_by = '' THEN NULL ELSE j.due_at END AS lease_end
), moved AS (
  UPDATE workspaces w
  SET state = CASE WHEN old_job.attempt = 0 THEN 'deleted'::workspace_state ELSE 'deleting' END,
      state_at = prewarm_now(), site = old_job.site,
      deleted_at = CASE WHEN old_job.attempt = 0 THEN prewarm_now() END
  FROM ws JOIN old_job ON old_job.workspace_id = ws.id
  WHERE w.id = ws.id
  RETURNING w.id, w.incarnation, w.state, w.template_id, w.preset_id, w.site, old_job.lease_end
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at, force)
  SELECT @next_job_id, moved.id, moved.incarnation, 'delete', ws.provider, moved.site, @priority,
         greatest(prewarm_now(), moved.lease_end), prewarm_now(), @force
  FROM moved, ws
  WHERE moved.state = 'deleting'
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT moved.id, moved.incarnation, 'provisioning', moved.state, prewarm_now(), @actor_id, @reason FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, before, after,
                         reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, @action, 'workspace', ws.id::text, ws.name,
         jsonb_build_object('state', ws.state), jsonb_build_object('state', moved.state), @reason, @source
  FROM moved, ws
)
SELECT id, template_id, preset_id, state FROM moved;

-- name: WorkspaceDrained :one
-- draining -> deleting: deregistered, or never registered.
WITH ws AS (
  SELECT w.id, w.provider, w.site FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'draining'
  FOR NO KEY UPDATE
), job AS (
  UPDATE jobs j SET state = 'done', finished_at = prewarm_now(), last_error = ''
  FROM ws
  WHERE j.id = @job_id AND j.attempt = @attempt AND j.state = 'running' AND j.workspace_id = ws.id
  RETURNING j.workspace_id, j.priority, j.force
), moved AS (
  UPDATE workspaces w SET state = 'deleting', state_at = prewarm_now()
  FROM job
  WHERE w.id = job.workspace_id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at, force)
  SELECT @next_job_id, moved.id, moved.incarnation, 'delete', ws.provider, ws.site, job.priority, prewarm_now(),
         prewarm_now(), job.force
  FROM moved, ws, job
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id, attempt)
  SELECT moved.id, moved.incarnation, 'draining', 'deleting', prewarm_now(), @actor_id, @reason, @job_id, @attempt
  FROM moved
)
SELECT id, template_id, preset_id FROM moved;

-- name: WorkspaceGone :one
-- deleting -> deleted: the provider has nothing of it any more, or (forced) nobody wants to know. What the provider said then, such as
-- what may be left, is on record.
WITH ws AS (
  SELECT w.id, w.name, w.organization_id FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'deleting'
  FOR NO KEY UPDATE
), job AS (
  UPDATE jobs j SET state = 'done', finished_at = prewarm_now()
  FROM ws
  WHERE j.id = @job_id AND j.attempt = @attempt AND j.state = 'running' AND j.workspace_id = ws.id
  RETURNING j.workspace_id
), moved AS (
  UPDATE workspaces w
  SET state = 'deleted', state_at = prewarm_now(), deleted_at = prewarm_now(),
      fault = CASE WHEN @fault::text = '' THEN w.fault ELSE @fault::text END
  FROM job
  WHERE w.id = job.workspace_id
  RETURNING w.id, w.incarnation, w.template_id, w.preset_id
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id, attempt)
  SELECT moved.id, moved.incarnation, 'deleting', 'deleted', prewarm_now(), @actor_id, @reason, @job_id, @attempt
  FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, after, reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.deleted', 'workspace', ws.id::text, ws.name,
         CASE WHEN @fault::text = '' THEN NULL ELSE jsonb_build_object('fault', @fault::text) END, @reason, @source
  FROM moved, ws
)
SELECT id, template_id, preset_id FROM moved;

-- name: ForceRetire :execrows
-- G5: a forced delete interrupts the backoff of the one under way, and the call itself: whoever runs it has lost its
-- lease. From here on the provider's errors are ignored.
UPDATE jobs
SET force = true, state = 'pending', leased_by = '', due_at = prewarm_now()
WHERE workspace_id = @workspace_id AND kind IN ('drain', 'delete') AND state IN ('pending', 'running');

-- name: ForceRetireAt :execrows
-- The same for all that is on its way out at a provider.
UPDATE jobs
SET force = true, state = 'pending', leased_by = '', due_at = prewarm_now()
WHERE id IN (SELECT j.id FROM jobs j
             WHERE j.provider = @provider AND j.kind IN ('drain', 'delete') AND j.state IN ('pending', 'running')
             ORDER BY j.id FOR UPDATE);

-- name: ClaimLost :exec
-- Audit of a claimed workspace that its provider no longer has, or takes away. A claim that had it for less than 5 minutes keeps
-- its place in line for an hour (InsertWaiting). Places that are over go.
WITH ws AS (
  SELECT w.id, w.name, w.organization_id, w.claim_id FROM workspaces w WHERE w.id = @workspace_id
), over AS (
  DELETE FROM lost_claims l
  USING (SELECT o.claim_id FROM lost_claims o WHERE o.lost_at < prewarm_now() - interval '2 hours' FOR UPDATE SKIP LOCKED) old
  WHERE l.claim_id = old.claim_id
), place AS (
  INSERT INTO lost_claims (claim_id, user_id, preset_id, created_at, lost_at)
  SELECT c.id, c.user_id, c.preset_id, c.created_at, prewarm_now()
  FROM ws JOIN claims c ON c.id = ws.claim_id
  WHERE c.bound_at > prewarm_now() - interval '5 minutes'
  ON CONFLICT DO NOTHING
)
INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, reason, source)
SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.missing', 'workspace', ws.id::text, ws.name, @reason, @source
FROM ws;

-- name: RecordWorkspaceAct :exec
-- Audit of an act on a workspace that is no transition.
INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, reason, source)
SELECT prewarm_now(), @actor_id, w.organization_id, @action, 'workspace', w.id::text, w.name, @reason, @source
FROM workspaces w WHERE w.id = @workspace_id;
