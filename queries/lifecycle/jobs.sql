-- Provider work: who may do it, until when. `due_at` is the earliest start of a pending job and the end of the lease of a
-- running one, so that 'due' finds new work and dropped work alike. The attempt is the fencing token: whatever a worker
-- writes names the attempt it was given (I5).

-- name: LeaseJobs :many
-- Takes up to max_jobs due jobs of one kind at one provider, people's before prebuilds. Creates are held to what the
-- provider takes in flight (S5), and so are handovers, by themselves: people wait for them. Two replicas that lease in the same moment
-- may exceed it by as much.
--
-- A job on a resource that is reached only from one site goes to the replicas of that site (own_site is this replica's
-- for the provider, or empty). Drains reach for nothing. A create whose site has had no replica for a minute may start
-- anew elsewhere, and a forced delete may end anywhere: what is left there is removed when the site comes back.
--
-- At a provider that is deleted nothing is created, and at one that was deleted by force all deletes are by force.
--
-- While the breaker of a provider is open (of its own site, where it has sites), nothing is created, reset or deleted
-- there, but by force. A start goes on: somebody may have claimed what was stopped, and claims never wait for a breaker. So
-- does a delete where only calls that fail have opened it: what the provider says is believed then, and each has its backoff.
--
-- What follows from a job (a probe from a create, a delete from a drain) belongs to the trace of that one.
WITH due AS (
  SELECT j.id
  FROM jobs j
  WHERE j.state IN ('pending', 'running')
    AND j.kind = @kind::job_kind
    AND j.provider = @provider
    AND j.due_at <= prewarm_now()
    AND (@kind::job_kind IN ('probe', 'drain', 'start') OR j.force
      OR @kind::job_kind = 'delete' AND (SELECT p.delete_forced FROM providers p WHERE p.name = @provider) OR NOT EXISTS (
      SELECT FROM inventories i WHERE i.provider = @provider AND i.site = @own_site::text AND i.opened_at IS NOT NULL
        AND NOT (i.by_calls AND @kind::job_kind = 'delete')))
    AND (j.site = '' OR j.site = @own_site::text OR j.kind = 'drain'
      OR ((j.kind = 'create' OR j.force
           OR j.kind = 'delete' AND (SELECT p.delete_forced FROM providers p WHERE p.name = @provider)) AND NOT EXISTS (
        SELECT FROM replicas r
        WHERE j.site = ANY (r.sites) AND r.heartbeat_at > prewarm_now() - interval '1 minute')))
  ORDER BY j.priority, j.due_at, j.id
  LIMIT CASE WHEN @kind::job_kind IN ('create', 'handover')
    THEN least(@max_jobs::integer, (
      SELECT greatest(0, CASE WHEN p.deleted_at IS NULL THEN p.creates_in_flight ELSE 0 END - (
        SELECT count(*) FROM jobs r
        WHERE r.kind = @kind::job_kind AND r.provider = @provider AND r.state = 'running' AND r.due_at > prewarm_now()))
      FROM providers p WHERE p.name = @provider))
    ELSE @max_jobs::integer END
  FOR UPDATE SKIP LOCKED
)
UPDATE jobs j
SET state = 'running', attempt = j.attempt + 1, leased_by = @replica,
    due_at = prewarm_now() + sqlc.arg(lease_s)::double precision * interval '1 second',
    site = CASE WHEN j.kind = 'create' THEN @own_site::text ELSE j.site END,
    traceparent = CASE WHEN @traced::boolean AND j.traceparent IS NULL AND j.kind IN ('probe', 'delete')
      THEN (SELECT o.traceparent FROM jobs o WHERE o.workspace_id = j.workspace_id AND o.id <> j.id
            ORDER BY o.created_at DESC LIMIT 1)
      ELSE j.traceparent END
WHERE j.id = ANY (ARRAY(SELECT due.id FROM due)) -- a join would be planned for as many as might be
RETURNING j.*;

-- name: ExtendLeases :many
-- The heartbeat of everything a replica holds: what it still holds, and of that what was extended. What does not come
-- back is lost to it. A job whose row somebody has locked, perhaps for long and perhaps frozen, is passed over: it must
-- not hold up the others, and is extended by a later heartbeat or runs out.
WITH held AS (
  SELECT j.id
  FROM jobs j
  JOIN (SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::integer[]) AS attempt) h
    ON j.id = h.id AND j.attempt = h.attempt
  WHERE j.state = 'running'
), free AS (
  SELECT j.id
  FROM jobs j
  JOIN (SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::integer[]) AS attempt) h
    ON j.id = h.id AND j.attempt = h.attempt
  WHERE j.state = 'running'
  FOR NO KEY UPDATE OF j SKIP LOCKED
), extended AS (
  UPDATE jobs j
  SET due_at = prewarm_now() + sqlc.arg(lease_s)::double precision * interval '1 second'
  FROM free
  WHERE j.id = free.id
  RETURNING j.id
)
SELECT held.id, (extended.id IS NOT NULL)::boolean AS extended
FROM held LEFT JOIN extended ON extended.id = held.id;

-- name: RetryJob :execrows
-- After an error that a retry may mend: back to pending, with its cause.
UPDATE jobs
SET state = 'pending', failures = failures + 1, last_error = @last_error, leased_by = '',
    due_at = prewarm_now() + sqlc.arg(backoff_s)::double precision * interval '1 second'
WHERE id = @id AND attempt = @attempt AND state = 'running';

-- name: DeferJob :execrows
-- Not yet done and nobody's fault, such as a workspace that still boots: asked again later.
UPDATE jobs
SET state = 'pending', last_error = @last_error, leased_by = '',
    due_at = prewarm_now() + sqlc.arg(delay_s)::double precision * interval '1 second'
WHERE id = @id AND attempt = @attempt AND state = 'running';

-- name: ReturnJobs :execrows
-- A replica that stops gives back what it can't finish (G6), for another to take at once.
UPDATE jobs j
SET state = 'pending', leased_by = '', due_at = prewarm_now()
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::integer[]) AS attempt) held
WHERE j.id = held.id AND j.attempt = held.attempt AND j.state = 'running';

-- name: ReleaseCleanup :execrows
-- The worker whose job was cancelled has let go of the provider: what follows need not wait for the lease to end.
UPDATE jobs j
SET due_at = prewarm_now()
FROM jobs mine
WHERE mine.id = @job_id AND mine.attempt = @attempt AND mine.state = 'cancelled'
  AND j.workspace_id = mine.workspace_id AND j.kind IN ('drain', 'delete', 'start') AND j.state = 'pending' AND j.attempt = 0
  AND j.created_at >= mine.finished_at;

-- name: NextDue :one
-- In how many seconds the next job of these kinds is due, so that a worker need not poll for it; an hour if none is.
SELECT coalesce(extract(epoch FROM min(due_at) - prewarm_now()), 3600)::double precision AS in_s
FROM jobs
WHERE state IN ('pending', 'running') AND kind = ANY ((@kinds::text[])::job_kind[]);

-- name: JobForWork :one
-- All that a worker needs to know of the workspace it works on.
SELECT sqlc.embed(w), o.name AS organization, coalesce(u.name, '')::text AS owner, t.name AS template, p.name AS preset, v.spec, v.agent, v.defaults,
       t.boot_timeout_s, t.keep_failures, coalesce(pr.delete_forced, false)::boolean AS provider_given_up, a.status AS agent_status, coalesce(a.message, '') AS agent_message,
       coalesce(a.heartbeat_timeout_s, 0)::int AS heartbeat_timeout_s,
       extract(epoch FROM prewarm_now() - w.state_at)::double precision AS in_state_s,
       coalesce((SELECT m.machine FROM provider_machines m WHERE m.workspace_id = w.id), '')::text AS machine,
       (p.forge_entity_id IS NOT NULL)::boolean AS runner, (fr.registered_at IS NOT NULL)::boolean AS runner_registered,
       (fr.finished_at IS NOT NULL)::boolean AS runner_finished,
       -- Whether the forge was asked in full, for jobs too, from a while after it had ended on, and all that it told was
       -- handled: what it had done would be known.
       (coalesce(fs.runners_listed_at >= fr.finished_at + interval '10 seconds' AND fs.succeeded_at >= fs.runners_listed_at, false)
        AND NOT EXISTS (SELECT FROM forge_deliveries d WHERE d.entity_id = fr.entity_id AND d.handled_at IS NULL)
       )::boolean AS runner_idled,
       -- Whether it was found up since it began to start, and when. And whether the forge was listed in full when its
       -- time to register was over.
       coalesce(fr.up_at >= w.state_at, false)::boolean AS runner_up, fr.up_at AS runner_up_at,
       coalesce(extract(epoch FROM prewarm_now() - fr.up_at), 0)::double precision AS runner_up_s,
       p.runner_registration_timeout_s,
       coalesce(fs.runners_listed_at >= fr.up_at + p.runner_registration_timeout_s * interval '1 second', false)::boolean
         AS forge_listed, fs.runners_listed_at
FROM workspaces w
JOIN organizations o ON o.id = w.organization_id
LEFT JOIN users u ON u.id = w.owner_id
JOIN templates t ON t.id = w.template_id
JOIN template_versions v ON v.id = w.template_version_id
JOIN presets p ON p.id = w.preset_id
LEFT JOIN providers pr ON pr.name = w.provider
LEFT JOIN agents a ON a.workspace_id = w.id AND a.incarnation = w.incarnation
LEFT JOIN forge_runners fr ON fr.workspace_id = w.id AND fr.incarnation = w.incarnation
LEFT JOIN forge_status fs ON fs.entity_id = fr.entity_id
WHERE w.id = @workspace_id;
