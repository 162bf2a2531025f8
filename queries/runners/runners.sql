-- Runners of forges: how they come to be registered, what the forge says of them, and what follows for their workspaces
-- (coderd/demand/runners). A row is open until it is unregistered, or there is nothing left of its workspace; everything
-- here that is asked often reads open rows only.

-- name: BeginHandOut :one
-- The right to ask the forge for its configuration, until a time. No row: it was handed out, somebody is asking, or its
-- workspace does not wait for it. Only in starting: before, a create that fails deletes what it made without a word to the
-- forge.
UPDATE forge_runners r
SET asked_at = coalesce(r.asked_at, prewarm_now()),
    asking_until = prewarm_now() + sqlc.arg(lease_s)::double precision * interval '1 second'
FROM workspaces w
WHERE r.workspace_id = @workspace_id AND r.incarnation = @incarnation AND r.handed_out_at IS NULL AND r.removed_at IS NULL
  AND (r.asking_until IS NULL OR r.asking_until <= prewarm_now())
  AND w.id = r.workspace_id AND w.incarnation = r.incarnation AND w.state = 'starting'
RETURNING r.asking_until;

-- name: HandOut :execrows
-- The forge has answered, and this replica hands it on. No row: it was too slow, or the workspace goes; then what was
-- registered has to go as well.
UPDATE forge_runners r
SET handed_out_at = prewarm_now(), asking_until = NULL, runner_id = sqlc.narg(runner_id)::bigint,
    files = sqlc.narg(files)::bytea, files_sealed_by = sqlc.narg(files_sealed_by)::text, files_read = @files_read::text[]
FROM workspaces w
WHERE r.workspace_id = @workspace_id AND r.incarnation = @incarnation AND r.handed_out_at IS NULL
  AND r.asking_until = @asking_until AND w.id = r.workspace_id AND w.incarnation = r.incarnation AND w.state = 'starting';

-- name: FilesOf :one
-- The files of the configuration that was handed out, as long as this one of them was not read and there is reason to.
SELECT r.files, coalesce(r.files_sealed_by, '')::text AS sealed_by
FROM forge_runners r
JOIN workspaces w ON w.id = r.workspace_id AND w.incarnation = r.incarnation AND w.state = 'starting'
WHERE r.workspace_id = @workspace_id AND r.incarnation = @incarnation AND r.removed_at IS NULL AND r.files IS NOT NULL
  AND NOT @name::text = ANY (r.files_read);

-- name: FileRead :execrows
-- One of the files goes out, once; with the last nothing is kept of any. No row: somebody else read it, or its workspace goes.
UPDATE forge_runners r
SET files_read = r.files_read || @name::text,
    files = CASE WHEN cardinality(r.files_read) + 1 < @all_files::integer THEN r.files END,
    files_sealed_by = CASE WHEN cardinality(r.files_read) + 1 < @all_files::integer THEN r.files_sealed_by END
FROM workspaces w
WHERE r.workspace_id = @workspace_id AND r.incarnation = @incarnation AND r.removed_at IS NULL AND r.files IS NOT NULL
  AND NOT @name::text = ANY (r.files_read)
  AND w.id = r.workspace_id AND w.incarnation = r.incarnation AND w.state = 'starting';

-- name: ForgetFiles :execrows
-- What nobody read in time, or will read any more, is not kept.
UPDATE forge_runners r SET files = NULL, files_sealed_by = NULL
WHERE r.files IS NOT NULL
  AND (r.handed_out_at < prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second' OR r.removed_at IS NOT NULL
    OR NOT EXISTS (SELECT FROM workspaces w
                   WHERE w.id = r.workspace_id AND w.incarnation = r.incarnation AND w.state = 'starting'));

-- name: EndHandOut :exec
-- It came to nothing: the next who asks may try at once. That the forge was asked stays.
UPDATE forge_runners SET asking_until = NULL
WHERE workspace_id = @workspace_id AND incarnation = @incarnation AND handed_out_at IS NULL AND asking_until = @asking_until;

-- name: RunnerSaid :one
-- What the inside of a workspace reports of its runner. A status is of this instant; `finished` is none of the forge's.
UPDATE forge_runners r
SET finished_at = CASE WHEN @finished::boolean THEN coalesce(r.finished_at, prewarm_now()) ELSE r.finished_at END,
    status = CASE WHEN s.heard THEN sqlc.narg(status)::forge_runner_status ELSE r.status END,
    status_at = CASE WHEN s.heard THEN prewarm_now() ELSE r.status_at END,
    status_since = CASE WHEN s.heard AND r.status <> sqlc.narg(status)::forge_runner_status THEN prewarm_now()
                        ELSE r.status_since END,
    registered_at = CASE WHEN s.heard THEN coalesce(r.registered_at, prewarm_now()) ELSE r.registered_at END
FROM (SELECT o.workspace_id, o.incarnation,
             (sqlc.narg(status)::forge_runner_status IS NOT NULL AND o.handed_out_at IS NOT NULL) AS heard
      FROM forge_runners o WHERE o.workspace_id = @workspace_id AND o.incarnation = @incarnation) s
WHERE r.workspace_id = s.workspace_id AND r.incarnation = s.incarnation AND r.removed_at IS NULL
RETURNING s.heard::boolean AS heard;

-- name: RunnerVetoed :exec
UPDATE forge_runners SET vetoed_at = prewarm_now()
WHERE workspace_id = @workspace_id AND incarnation = @incarnation;

-- name: RunnerRemoved :exec
-- Nothing is to be asked of the forge any more: it has unregistered it, or never knew it, or its word is not wanted. One whose
-- workspace does not drain (yet) is gone: should its deletion come to nothing, it is drained for that.
UPDATE forge_runners r
SET removed_at = CASE WHEN w.state = 'draining' THEN prewarm_now() END,
    status = CASE WHEN r.asked_at IS NULL THEN r.status ELSE 'gone' END, status_at = prewarm_now(),
    status_since = prewarm_now()
FROM workspaces w
WHERE r.workspace_id = @workspace_id AND r.incarnation = @incarnation AND r.removed_at IS NULL AND w.id = r.workspace_id;

-- name: AbandonRunner :one
-- An owner wants the workspace gone without the forge's word (P7). No row: it is known to be busy, by a job or by the
-- last listing, or it is no runner, or not open any more. A drain that waits for the forge goes on at once.
WITH it AS (
  UPDATE forge_runners r SET abandoned_at = prewarm_now()
  FROM workspaces w, forge_entities e, forge_credentials c
  WHERE r.workspace_id = @workspace_id AND r.incarnation = @incarnation AND r.removed_at IS NULL AND r.status <> 'active'
    AND w.id = r.workspace_id AND w.incarnation = r.incarnation AND e.id = r.entity_id AND c.id = e.credential_id
    AND NOT EXISTS (
      SELECT FROM forge_jobs j
      WHERE j.state = 'in_progress'
        AND (j.workspace_id = r.workspace_id AND j.incarnation = r.incarnation
          OR j.workspace_id IS NULL AND j.runner_name <> '' AND j.runner_name = r.name AND j.forge_url = c.url
          AND prewarm_may_run(e.id, e.organization_id, e.scope, e.path, j.entity_id, j.organization_id, j.repository)))
  RETURNING w.id, w.name, w.organization_id, w.state
), drain AS (
  UPDATE jobs j SET due_at = prewarm_now() FROM it
  WHERE j.workspace_id = it.id AND j.kind = 'drain' AND j.state = 'pending'
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, reason, source)
  SELECT prewarm_now(), @actor_id, it.organization_id, 'runner.abandon', 'workspace', it.id::text, it.name, @reason, @source
  FROM it
)
SELECT it.state FROM it;

-- name: EnsureForgeStatus :exec
INSERT INTO forge_status (entity_id)
SELECT e.id FROM forge_entities e
WHERE e.deleted_at IS NULL AND NOT EXISTS (SELECT FROM forge_status s WHERE s.entity_id = e.id)
ON CONFLICT DO NOTHING;

-- name: LeaseRounds :many
-- Entities whose forge is to be asked now, each by one replica: each minute or so, sooner while somebody waits for a runner
-- to be seen there, or a drain for the end of its job. One asks less often of a large listing, and when little is left of
-- the rate limit.
WITH due AS (
  SELECT s.entity_id
  FROM forge_status s
  JOIN forge_entities e ON e.id = s.entity_id AND e.deleted_at IS NULL
  CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE r.registered_at IS NULL
                              AND r.handed_out_at > prewarm_now() - interval '1 minute') AS fresh,
           count(*) FILTER (WHERE r.registered_at IS NULL AND r.handed_out_at > prewarm_now() - interval '1 hour'
                               OR r.vetoed_at IS NOT NULL) AS awaited,
           count(*) AS open
    FROM forge_runners r WHERE r.entity_id = s.entity_id AND r.removed_at IS NULL
  ) n
  WHERE (s.leased_until IS NULL OR s.leased_until <= prewarm_now())
    AND (s.wait_until IS NULL OR s.wait_until <= prewarm_now())
    AND (s.asked_at IS NULL OR s.asked_at <= prewarm_now() - sqlc.arg(jitter)::double precision * interval '1 second' * CASE
      WHEN n.awaited = 0 OR s.rate_limit > 0 AND s.rate_remaining < s.rate_limit / 4 AND s.rate_reset_at > prewarm_now()
        THEN sqlc.arg(idle_s)::double precision
      WHEN n.fresh > 0
        THEN least(sqlc.arg(fresh_s)::double precision * (1 + n.open / 100), sqlc.arg(awaited_s)::double precision)
      ELSE sqlc.arg(awaited_s)::double precision END)
  ORDER BY s.asked_at NULLS FIRST
  LIMIT @max_rounds
  FOR UPDATE OF s SKIP LOCKED
)
UPDATE forge_status s
SET leased_by = @replica, leased_until = prewarm_now() + sqlc.arg(lease_s)::double precision * interval '1 second',
    asked_at = prewarm_now()
WHERE s.entity_id = ANY (ARRAY(SELECT due.entity_id FROM due))
RETURNING s.entity_id, s.leased_until, s.asked_at;

-- name: RunnersListed :many
-- What a complete listing says of the runners of an entity, as of the instant at which it began. A runner is registered when
-- it is connected: a forge that makes configurations lists one from then on. One that was registered before and is not in
-- there is gone. What is known of a later instant stays. It returns those that are now known to be registered.
WITH seen AS (
  SELECT unnest((SELECT @names::text[])) AS name, unnest((SELECT @ids::bigint[])) AS id,
         unnest((SELECT (@statuses::text[])::forge_runner_status[])) AS status
), told AS (
  SELECT r.workspace_id, r.incarnation, s.id, r.registered_at,
         CASE WHEN r.registered_at IS NULL AND s.status = 'offline' THEN 'pending'
              WHEN s.status IS NOT NULL THEN s.status
              WHEN r.registered_at < @began_at::timestamptz THEN 'gone'
              ELSE r.status END::forge_runner_status AS status
  FROM forge_runners r
  LEFT JOIN seen s ON s.name = r.name
  WHERE r.entity_id = @entity_id AND r.removed_at IS NULL AND r.asked_at IS NOT NULL AND r.status_at < @began_at::timestamptz
), moved AS (
  UPDATE forge_runners r
  SET status = told.status, status_at = @began_at::timestamptz, runner_id = coalesce(told.id, r.runner_id),
      status_since = CASE WHEN r.status = told.status THEN r.status_since ELSE prewarm_now() END,
      registered_at = coalesce(r.registered_at, CASE WHEN told.status IN ('idle', 'active') THEN prewarm_now() END)
  FROM told
  WHERE r.workspace_id = told.workspace_id AND r.incarnation = told.incarnation AND r.status_at < @began_at::timestamptz
  RETURNING r.workspace_id, told.registered_at IS NULL AND r.registered_at IS NOT NULL AS first
)
SELECT moved.workspace_id FROM moved WHERE moved.first;

-- name: RoundListed :exec
-- The listing was complete; the round goes on.
UPDATE forge_status SET runners_listed_at = greatest(runners_listed_at, @began_at::timestamptz)
WHERE entity_id = @entity_id;

-- name: EndRound :exec
-- How a round ended. Who lost its lease meanwhile says nothing. A round that failed before the forge said its limit leaves what
-- was last known of that.
UPDATE forge_status
SET leased_by = '', leased_until = NULL, error = @error::text,
    error_at = CASE WHEN @error::text = '' THEN error_at ELSE prewarm_now() END,
    succeeded_at = CASE WHEN @error::text = '' THEN prewarm_now() ELSE succeeded_at END,
    wait_until = CASE WHEN @error::text = '' THEN NULL
                 ELSE coalesce(sqlc.narg(wait_until)::timestamptz,
                               prewarm_now() + sqlc.arg(backoff_s)::double precision * interval '1 second') END,
    rate_limit = CASE WHEN @error::text <> '' AND @rate_limit::int = 0 THEN rate_limit ELSE @rate_limit::int END,
    rate_remaining = CASE WHEN @error::text <> '' AND @rate_limit::int = 0 THEN rate_remaining ELSE @rate_remaining END,
    rate_reset_at = CASE WHEN @error::text <> '' AND @rate_limit::int = 0 THEN rate_reset_at
                    ELSE sqlc.narg(rate_reset_at)::timestamptz END
WHERE entity_id = @entity_id AND leased_by = @replica AND leased_until = @leased_until;

-- name: LeaveForgeAlone :exec
-- An error says that the forge is not well, or that it was asked too much: no replica registers or unregisters a runner there
-- before (P8). Of several such errors the latest instant holds.
INSERT INTO forge_status (entity_id, runners_wait_until, runners_error)
VALUES (@entity_id, coalesce(sqlc.narg(wait_until)::timestamptz,
                             prewarm_now() + sqlc.arg(backoff_s)::double precision * interval '1 second'), @error::text)
ON CONFLICT (entity_id) DO UPDATE
SET runners_wait_until = greatest(forge_status.runners_wait_until, excluded.runners_wait_until),
    runners_error = excluded.runners_error;

-- name: ForgeLeftAlone :one
-- Until when no runner of an entity is registered or unregistered, and why. No row: its forge may be asked.
SELECT s.runners_wait_until, s.runners_error FROM forge_status s
WHERE s.entity_id = @entity_id AND s.runners_wait_until > prewarm_now();

-- name: ForgottenRunners :many
-- Of these names, those that were ours, of workspaces that have been gone for an hour.
SELECT r.name FROM forge_runners r
WHERE r.entity_id = @entity_id AND r.name = ANY (@names::text[]) AND r.created_at < prewarm_now() - interval '1 hour'
  AND NOT EXISTS (SELECT FROM workspaces w
                  WHERE w.id = r.workspace_id AND (w.state <> 'deleted' OR w.deleted_at > prewarm_now() - interval '1 hour'))
LIMIT @max_runners;

-- name: QuarantinedRunners :many
-- Runners whose workspace is kept to be looked at, and that are not known to be unregistered: one that is registered could be
-- given a job. Those that had a job come last.
SELECT r.workspace_id, r.incarnation, r.name
FROM forge_runners r
JOIN workspaces w ON w.id = r.workspace_id AND w.incarnation = r.incarnation AND w.state = 'quarantined'
WHERE r.entity_id = @entity_id AND r.removed_at IS NULL AND r.asked_at IS NOT NULL AND r.status <> 'gone'
ORDER BY r.vetoed_at NULLS FIRST, r.created_at
LIMIT @max_runners;

-- name: BindRunnerJobs :many
-- Jobs that name a runner of ours are its workspace's; and a runner that a job names was registered. It returns those that
-- are now known to be.
WITH bound AS (
  UPDATE forge_jobs j
  SET workspace_id = r.workspace_id, incarnation = r.incarnation, updated_at = prewarm_now()
  FROM forge_runners r
  JOIN forge_entities e ON e.id = r.entity_id
  JOIN forge_credentials c ON c.id = e.credential_id
  WHERE r.removed_at IS NULL AND j.workspace_id IS NULL AND j.runner_name <> '' AND j.runner_name = r.name
    AND j.forge_url = c.url
    AND prewarm_may_run(e.id, e.organization_id, e.scope, e.path, j.entity_id, j.organization_id, j.repository)
  RETURNING r.workspace_id, r.incarnation
)
UPDATE forge_runners r SET registered_at = prewarm_now()
WHERE r.removed_at IS NULL AND r.registered_at IS NULL AND r.asked_at IS NOT NULL
  AND (EXISTS (SELECT FROM forge_jobs j WHERE j.workspace_id = r.workspace_id AND j.incarnation = r.incarnation)
    OR EXISTS (SELECT FROM bound b WHERE b.workspace_id = r.workspace_id AND b.incarnation = r.incarnation))
RETURNING r.workspace_id;

-- name: CloseRunners :execrows
-- Of workspaces that went without being drained, such as one whose create failed: there is nothing left to be asked.
UPDATE forge_runners r SET removed_at = prewarm_now()
WHERE r.removed_at IS NULL
  AND NOT EXISTS (SELECT FROM workspaces w
                  WHERE w.id = r.workspace_id AND w.incarnation = r.incarnation AND w.state NOT IN ('deleting', 'deleted'));

-- name: RunnersToSettle :many
-- Open runners for whose workspaces something follows from their job or from what the forge says, the oldest first. With
-- the job that each is at, and the last that it was.
SELECT r.workspace_id, r.incarnation, w.name, w.state, w.template_id, r.status,
       (r.finished_at IS NOT NULL)::boolean AS finished, (o.id IS NOT NULL)::boolean AS open,
       coalesce(o.id, '00000000-0000-0000-0000-000000000000')::uuid AS open_id, coalesce(o.job, '')::text AS open_job,
       (d.id IS NOT NULL)::boolean AS done, coalesce(d.job, '')::text AS done_job,
       coalesce(nullif(d.conclusion, ''), 'over')::text AS conclusion
FROM forge_runners r
JOIN workspaces w ON w.id = r.workspace_id AND w.incarnation = r.incarnation
LEFT JOIN LATERAL (
  SELECT j.id, concat_ws(' ', nullif(j.name, ''), 'of', j.repository) AS job FROM forge_jobs j
  WHERE j.workspace_id = r.workspace_id AND j.incarnation = r.incarnation AND j.state = 'in_progress'
  ORDER BY j.queued_at LIMIT 1
) o ON true
LEFT JOIN LATERAL (
  SELECT j.id, concat_ws(' ', nullif(j.name, ''), 'of', j.repository) AS job, j.conclusion FROM forge_jobs j
  WHERE j.workspace_id = r.workspace_id AND j.incarnation = r.incarnation AND j.state = 'completed'
  ORDER BY j.completed_at DESC NULLS LAST LIMIT 1
) d ON true
WHERE r.removed_at IS NULL
  AND (w.state = 'ready' AND (o.id IS NOT NULL OR d.id IS NOT NULL OR r.finished_at IS NOT NULL
         OR r.status IN ('active', 'gone')
         OR r.status = 'offline'
           AND r.status_since < prewarm_now() - sqlc.arg(offline_s)::double precision * interval '1 second')
    OR w.state = 'starting' AND d.id IS NOT NULL AND o.id IS NULL
    OR w.state = 'claimed' AND w.owner_id = @forge_jobs::uuid
       AND (r.finished_at IS NOT NULL OR r.status = 'gone'
         OR o.id IS NULL AND (d.id IS NOT NULL OR r.status = 'idle' AND r.status_at > w.claimed_at)))
ORDER BY r.created_at, r.workspace_id
LIMIT @max_runners;

-- name: HastenDrains :execrows
-- Drains that wait for the end of a job which has ended since they were last refused.
UPDATE jobs j SET due_at = prewarm_now()
FROM forge_runners r
WHERE r.removed_at IS NULL AND r.vetoed_at IS NOT NULL
  AND j.workspace_id = r.workspace_id AND j.kind = 'drain' AND j.state = 'pending' AND j.due_at > prewarm_now()
  AND (r.status = 'gone' AND r.status_at > r.vetoed_at OR r.finished_at > r.vetoed_at
    OR EXISTS (SELECT FROM forge_jobs d
               WHERE d.workspace_id = r.workspace_id AND d.incarnation = r.incarnation AND d.state = 'completed'
                 AND d.updated_at > r.vetoed_at))
  AND NOT EXISTS (SELECT FROM forge_jobs o
                  WHERE o.workspace_id = r.workspace_id AND o.incarnation = r.incarnation AND o.state = 'in_progress');

-- name: HastenProbes :execrows
-- The runners of these workspaces were seen: who asks for their readiness need not wait any longer.
UPDATE jobs j
SET due_at = prewarm_now()
WHERE j.workspace_id = ANY (@workspace_ids::uuid[]) AND j.kind = 'probe' AND j.state = 'pending'
  AND j.due_at > prewarm_now();
