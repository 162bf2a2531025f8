-- name: BeginHandoversOf :many
-- claimed -> claimed: those of the workspaces named that are claimed at these providers, and whose spec asks for it, are to be handed
-- over to their owners there. Each once for its claim, whatever came of it: another try is a person's. Who begins the same one at the
-- same moment is waited for, so that there is a job when this is over.
WITH ws AS (
  SELECT w.id, w.incarnation, w.provider, w.site FROM workspaces w
  JOIN template_versions v ON v.id = w.template_version_id
  WHERE w.id = ANY (@ids::uuid[]) AND w.state = 'claimed' AND w.provider = ANY (@providers::text[])
    AND v.spec ->> 'apply_on_claim' IN ('after', 'before')
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.workspace_id = w.id
                    AND (j.state IN ('pending', 'running') OR j.kind = 'handover' AND j.incarnation = w.incarnation))
  ORDER BY w.id
  FOR NO KEY UPDATE OF w
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT gen_random_uuid(), ws.id, ws.incarnation, 'handover', ws.provider, ws.site, @priority, prewarm_now(), prewarm_now() FROM ws
  ON CONFLICT DO NOTHING -- somebody began it since
  RETURNING id, workspace_id
), moved AS (
  UPDATE workspaces w SET fault = '' FROM next WHERE w.id = next.workspace_id RETURNING w.id, w.incarnation, next.id AS job_id
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id)
  SELECT moved.id, moved.incarnation, 'claimed', 'claimed', prewarm_now(), @actor_id, @reason, moved.job_id FROM moved
)
SELECT id FROM moved;

-- name: HandoversToBegin :many
-- Claimed workspaces at these providers that are to be handed over, and for which nobody has begun that; so many at most.
SELECT w.id FROM workspaces w
JOIN template_versions v ON v.id = w.template_version_id
WHERE w.state = 'claimed' AND w.provider = ANY (@providers::text[])
  AND v.spec ->> 'apply_on_claim' IN ('after', 'before')
  AND NOT EXISTS (SELECT FROM jobs j WHERE j.workspace_id = w.id
                  AND (j.state IN ('pending', 'running') OR j.kind = 'handover' AND j.incarnation = w.incarnation))
LIMIT @most;

-- name: HandedOver :one
-- claimed -> claimed: the provider knows its owner.
WITH ws AS (
  SELECT w.id FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'claimed'
  FOR NO KEY UPDATE
), job AS (
  UPDATE jobs j SET state = 'done', finished_at = prewarm_now(), last_error = ''
  FROM ws
  WHERE j.id = @job_id AND j.kind = 'handover' AND j.attempt = @attempt AND j.state = 'running' AND j.workspace_id = ws.id
  RETURNING j.workspace_id
), moved AS (
  UPDATE workspaces w SET addresses = @addresses, environment = @environment, fault = ''
  FROM job
  WHERE w.id = job.workspace_id
  RETURNING w.id, w.incarnation, w.claimed_at
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id, attempt)
  SELECT moved.id, moved.incarnation, 'claimed', 'claimed', prewarm_now(), @actor_id, @reason, @job_id, @attempt FROM moved
)
SELECT id, coalesce(extract(epoch FROM prewarm_now() - claimed_at), 0)::double precision AS took_s FROM moved;

-- name: HandoverRetried :one
-- claimed -> claimed: a person wants it tried again. No row: it has not failed, or is under way.
WITH ws AS (
  SELECT w.id, w.incarnation, w.provider, w.site, w.name, w.organization_id, w.fault, w.template_id, w.preset_id FROM workspaces w
  WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND w.state = 'claimed'
    AND EXISTS (SELECT FROM jobs j WHERE j.workspace_id = w.id AND j.incarnation = w.incarnation AND j.kind = 'handover' AND j.state = 'failed')
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.workspace_id = w.id
                    AND (j.state IN ('pending', 'running') OR j.kind = 'handover' AND j.incarnation = w.incarnation AND j.state = 'done'))
  FOR NO KEY UPDATE
), next AS (
  INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, priority, due_at, created_at)
  SELECT @next_job_id, ws.id, ws.incarnation, 'handover', ws.provider, ws.site, @priority, prewarm_now(), prewarm_now() FROM ws
  ON CONFLICT DO NOTHING -- somebody else has it tried
  RETURNING workspace_id
), moved AS (
  UPDATE workspaces w SET fault = '' FROM next WHERE w.id = next.workspace_id RETURNING w.id, w.incarnation
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason, job_id)
  SELECT moved.id, moved.incarnation, 'claimed', 'claimed', prewarm_now(), @actor_id, @reason, @next_job_id FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, before, after,
                         reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.retry', 'workspace', ws.id::text, ws.name,
         jsonb_build_object('state', 'claimed', 'fault', ws.fault), jsonb_build_object('state', 'claimed'), @reason, @source
  FROM moved JOIN ws ON ws.id = moved.id
)
SELECT ws.id, ws.template_id, ws.preset_id FROM moved JOIN ws ON ws.id = moved.id;
