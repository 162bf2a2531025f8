-- What people see of forges: credentials, entities, jobs and runners. Nothing here locks or writes, and no secret is read.

-- name: RunnerOf :one
-- All that is to be known before the forge is asked about a runner, with the job that it is at by our rows, the newest
-- where there should be several.
SELECT r.workspace_id, r.incarnation, r.entity_id, r.name, r.runner_id, r.status, r.status_at, r.asked_at, r.handed_out_at,
       r.registered_at, r.abandoned_at, r.removed_at, w.name AS workspace_name, w.state AS workspace_state,
       w.incarnation AS workspace_incarnation, coalesce(r.asking_until > prewarm_now(), false)::boolean AS asking,
       coalesce(s.runners_wait_until > prewarm_now(), false)::boolean AS left_alone, s.runners_wait_until,
       coalesce(s.runners_error, '') AS runners_error,
       extract(epoch FROM prewarm_now() - w.state_at)::double precision AS in_state_s,
       p.runner_labels, p.runner_group, c.kind, c.ca_bundle, e.scope, e.path, coalesce(o.job, '')::text AS job,
       coalesce(r.status IN ('gone', 'offline') AND r.status_at > coalesce(o.started_at, o.seen_at),
                false)::boolean AS job_lost
FROM forge_runners r
JOIN workspaces w ON w.id = r.workspace_id
JOIN presets p ON p.id = r.preset_id
JOIN forge_entities e ON e.id = r.entity_id
JOIN forge_credentials c ON c.id = e.credential_id
LEFT JOIN forge_status s ON s.entity_id = r.entity_id
LEFT JOIN LATERAL (
  SELECT concat_ws(' ', nullif(j.name, ''), 'of', j.repository) AS job, j.started_at, j.seen_at FROM forge_jobs j
  WHERE j.state = 'in_progress'
    AND (j.workspace_id = r.workspace_id AND j.incarnation = r.incarnation
      OR j.workspace_id IS NULL AND j.runner_name <> '' AND j.runner_name = r.name AND j.forge_url = c.url
        AND prewarm_may_run(e.id, e.organization_id, e.scope, e.path, j.entity_id, j.organization_id, j.repository))
  ORDER BY j.updated_at DESC LIMIT 1
) o ON true
WHERE r.workspace_id = @workspace_id AND r.incarnation = @incarnation;

-- name: ForgeCredentialViews :many
SELECT c.id, c.name, c.kind, c.url, c.auth, c.app_id, c.installation_id, (c.ca_bundle <> '')::boolean AS has_ca_bundle,
       c.sealed_by, c.created_at, c.updated_at,
       (SELECT count(*) FROM forge_entities e WHERE e.credential_id = c.id AND e.deleted_at IS NULL)::int AS entities
FROM forge_credentials c
WHERE c.organization_id = @organization_id AND (sqlc.narg(name)::text IS NULL OR c.name = sqlc.narg(name)::text)
ORDER BY c.name;

-- name: ForgeEntityViews :many
-- All entities, or one. Jobs are counted by the entity that they came by first, so each once.
WITH open AS MATERIALIZED (
  SELECT j.entity_id, count(*) FILTER (WHERE j.state = 'queued') AS queued,
         count(*) FILTER (WHERE j.state = 'queued' AND j.preset_id IS NULL AND j.unserved <> '') AS unserved,
         count(*) FILTER (WHERE j.state = 'in_progress') AS in_progress
  FROM forge_jobs j WHERE j.state <> 'completed' GROUP BY j.entity_id
), registered AS MATERIALIZED (
  SELECT r.entity_id, count(*) AS n FROM forge_runners r
  WHERE r.status <> 'gone' AND r.status <> 'pending' GROUP BY r.entity_id
), unhandled AS MATERIALIZED (
  SELECT d.entity_id, count(*) AS n FROM forge_deliveries d WHERE d.handled_at IS NULL GROUP BY d.entity_id
)
SELECT e.id, e.name, c.kind, c.url, e.scope, e.path, c.name AS credential, e.balance, e.hook_id, e.before_until,
       e.stopped_at, e.stopped_reason, coalesce(e.drain_at >= e.stopped_at, false)::boolean AS drains, e.created_at, prewarm_now()::timestamptz AS now,
       coalesce(s.succeeded_at > greatest(c.updated_at, e.credential_at, e.created_at), false)::boolean AS credential_checked,
       s.runners_wait_until, coalesce(s.runners_error, '') AS runners_error,
       coalesce(s.error, '') AS error, s.error_at, s.succeeded_at, s.wait_until, coalesce(s.rate_limit, 0)::int AS rate_limit,
       coalesce(s.rate_remaining, 0)::int AS rate_remaining, s.rate_reset_at, last.received_at AS delivery_at,
       coalesce(unhandled.n, 0)::int AS waiting, coalesce(open.queued, 0)::int AS queued,
       coalesce(open.unserved, 0)::int AS unserved, coalesce(open.in_progress, 0)::int AS in_progress,
       coalesce(registered.n, 0)::int AS runners,
       coalesce((SELECT array_agg(t.name || '/' || p.name ORDER BY t.name, p.name)
                 FROM presets p JOIN templates t ON t.id = p.template_id
                 WHERE p.forge_entity_id = e.id AND p.deleted_at IS NULL AND t.deleted_at IS NULL), '{}')::text[] AS presets
FROM forge_entities e
JOIN forge_credentials c ON c.id = e.credential_id
LEFT JOIN forge_status s ON s.entity_id = e.id
LEFT JOIN open ON open.entity_id = e.id
LEFT JOIN registered ON registered.entity_id = e.id
LEFT JOIN unhandled ON unhandled.entity_id = e.id
LEFT JOIN forge_deliveries last ON last.id = (SELECT max(d.id) FROM forge_deliveries d WHERE d.entity_id = e.id)
WHERE e.organization_id = @organization_id AND e.deleted_at IS NULL
  AND (sqlc.narg(name)::text IS NULL OR e.name = sqlc.narg(name)::text)
ORDER BY e.name;

-- name: ForgeEntityNames :many
SELECT e.id, e.name FROM forge_entities e
WHERE e.organization_id = @organization_id AND e.deleted_at IS NULL ORDER BY e.name;

-- name: ForgeJobPage :many
-- The ids of a page, newest first, from (after_at, after_id) on. Whose a job is: the runner's preset where it runs on one
-- of ours, else the one whose demand it is. words are patterns, each of which must match what a job is found by; a search goes
-- down to (bottom_at, bottom_id), which is ForgeJobWindow's.
SELECT j.id, j.queued_at
FROM forge_jobs j
LEFT JOIN forge_runners r ON r.workspace_id = j.workspace_id AND r.incarnation = j.incarnation
WHERE j.organization_id = @organization_id
  AND (sqlc.narg(entity_id)::uuid IS NULL OR j.entity_id = sqlc.narg(entity_id)::uuid)
  AND (sqlc.narg(state)::forge_job_state IS NULL OR j.state = sqlc.narg(state)::forge_job_state)
  AND (NOT @unserved::boolean OR j.state = 'queued' AND j.preset_id IS NULL AND j.unserved <> '')
  AND (sqlc.narg(template)::text IS NULL AND sqlc.narg(preset)::text IS NULL
       OR coalesce(r.preset_id, j.preset_id) IN (
         SELECT p.id FROM presets p JOIN templates t ON t.id = p.template_id
         WHERE (sqlc.narg(template)::text IS NULL OR t.name = sqlc.narg(template)::text)
           AND (sqlc.narg(preset)::text IS NULL OR p.name = sqlc.narg(preset)::text)))
  AND (sqlc.narg(words)::text[] IS NULL
       OR concat_ws(' ', j.repository, j.name, j.workflow, j.job_id::text, j.runner_name, array_to_string(j.labels, ' '),
            (SELECT e.name FROM forge_entities e WHERE e.id = j.entity_id),
            (SELECT t.name || '/' || p.name FROM presets p JOIN templates t ON t.id = p.template_id
             WHERE p.id = coalesce(r.preset_id, j.preset_id))) ILIKE ALL (sqlc.narg(words)::text[]))
  AND (sqlc.narg(bottom_at)::timestamptz IS NULL
       OR (j.queued_at, j.id) >= (sqlc.narg(bottom_at)::timestamptz, sqlc.narg(bottom_id)::uuid))
  AND (sqlc.narg(after_at)::timestamptz IS NULL
       OR (j.queued_at, j.id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
ORDER BY j.queued_at DESC, j.id DESC
LIMIT @max_jobs;

-- name: ForgeJobWindow :one
-- The last of so many jobs from (after_at, after_id) on: how far one search goes. No row where there are fewer.
SELECT j.id, j.queued_at
FROM forge_jobs j
WHERE j.organization_id = @organization_id
  AND (sqlc.narg(after_at)::timestamptz IS NULL
       OR (j.queued_at, j.id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
ORDER BY j.queued_at DESC, j.id DESC
OFFSET @size LIMIT 1;

-- name: ForgeJobViews :many
SELECT j.id, coalesce(e.name, '') AS entity, j.job_id, j.attempt, j.repository, j.run_id, j.workflow, j.name, j.url, j.labels,
       j.state, j.conclusion, coalesce(t.name, '') AS template, coalesce(p.name, '') AS preset, j.unserved,
       coalesce(w.name, j.runner_name) AS runner_name, j.workspace_id, j.queued_at, j.started_at, j.completed_at, j.seen_at,
       -- While its preset's forge is left alone, no runner is registered for a job that waits.
       coalesce(j.state = 'queued' AND s.runners_wait_until > prewarm_now(), false)::boolean AS delayed,
       s.runners_wait_until, coalesce(s.runners_error, '') AS runners_error,
       greatest(0, extract(epoch FROM coalesce(j.started_at, j.completed_at, prewarm_now()) - j.queued_at))::double precision
         AS wait_s
FROM forge_jobs j
LEFT JOIN forge_entities e ON e.id = j.entity_id
LEFT JOIN forge_runners r ON r.workspace_id = j.workspace_id AND r.incarnation = j.incarnation
LEFT JOIN workspaces w ON w.id = j.workspace_id
LEFT JOIN presets p ON p.id = coalesce(r.preset_id, j.preset_id)
LEFT JOIN templates t ON t.id = p.template_id
LEFT JOIN forge_status s ON s.entity_id = p.forge_entity_id
WHERE j.id = ANY (@ids::uuid[])
ORDER BY j.queued_at DESC, j.id DESC;

-- name: ForgeJobNamed :many
-- The ids of the attempts of a job by the forge's number, newest first; of several forges those of each.
SELECT j.id FROM forge_jobs j
WHERE j.organization_id = @organization_id AND j.job_id = @job_id
ORDER BY j.queued_at DESC, j.attempt DESC LIMIT 10;

-- name: ForgeJobOfOrganization :one
SELECT j.id FROM forge_jobs j WHERE j.organization_id = @organization_id AND j.id = @id;

-- name: ForgeJobCounts :one
-- What is open now, and what was completed within a day: older ones go.
SELECT count(*) FILTER (WHERE j.state = 'waiting')::int AS waiting, count(*) FILTER (WHERE j.state = 'queued')::int AS queued,
       count(*) FILTER (WHERE j.state = 'queued' AND j.preset_id IS NULL AND j.unserved <> '')::int AS unserved,
       count(*) FILTER (WHERE j.state = 'in_progress')::int AS in_progress,
       (SELECT count(*) FROM forge_jobs c
        WHERE c.state = 'completed' AND c.completed_at > prewarm_now() - interval '1 day'
          AND c.organization_id = @organization_id
          AND (sqlc.narg(entity_id)::uuid IS NULL OR c.entity_id = sqlc.narg(entity_id)::uuid))::int AS completed
FROM forge_jobs j
WHERE j.state <> 'completed' AND j.organization_id = @organization_id
  AND (sqlc.narg(entity_id)::uuid IS NULL OR j.entity_id = sqlc.narg(entity_id)::uuid);

-- name: RunnerPage :many
-- Runners, newest first: those that there are, and with gone also those that were.
SELECT r.workspace_id, r.incarnation, w.name, w.state, r.status, r.status_at, coalesce(e.name, '') AS entity,
       t.name AS template, p.name AS preset, r.runner_id, p.runner_labels, r.registered_at, r.created_at, job.id AS job_row
FROM forge_runners r
JOIN workspaces w ON w.id = r.workspace_id
JOIN presets p ON p.id = r.preset_id
JOIN templates t ON t.id = p.template_id
LEFT JOIN forge_entities e ON e.id = r.entity_id
LEFT JOIN forge_jobs job ON job.id = (
  SELECT j.id FROM forge_jobs j WHERE j.workspace_id = r.workspace_id AND j.incarnation = r.incarnation
  ORDER BY (j.state = 'in_progress') DESC, j.queued_at DESC LIMIT 1)
WHERE w.organization_id = @organization_id
  AND (@gone::boolean OR r.status <> 'gone' AND w.state <> 'deleted' AND r.incarnation = w.incarnation)
  AND (sqlc.narg(workspace_id)::uuid IS NULL OR r.workspace_id = sqlc.narg(workspace_id)::uuid)
  AND (sqlc.narg(name)::text IS NULL OR w.name = sqlc.narg(name)::text OR r.name = sqlc.narg(name)::text)
  AND (sqlc.narg(entity_id)::uuid IS NULL OR r.entity_id = sqlc.narg(entity_id)::uuid)
  AND (sqlc.narg(status)::forge_runner_status IS NULL OR r.status = sqlc.narg(status)::forge_runner_status)
  AND (sqlc.narg(template)::text IS NULL OR t.name = sqlc.narg(template)::text)
  AND (sqlc.narg(preset)::text IS NULL OR p.name = sqlc.narg(preset)::text)
  AND (sqlc.narg(words)::text[] IS NULL
       OR concat_ws(' ', w.name, r.name, t.name || '/' || p.name, e.name, array_to_string(p.runner_labels, ' '),
                    (SELECT j.repository || ' ' || j.name FROM forge_jobs j WHERE j.id = job.id)) ILIKE ALL (sqlc.narg(words)::text[]))
  AND (sqlc.narg(after_at)::timestamptz IS NULL
       OR (r.created_at, r.workspace_id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
ORDER BY r.created_at DESC, r.workspace_id DESC, r.incarnation DESC
LIMIT @max_runners;
