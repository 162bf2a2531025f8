-- Jobs of forges: rows that only grow, and whose demand each is (P3, P4; docs/decisions/0021-jobs-of-forges-are-demand.md).

-- name: LockForgeJobs :exec
-- Whoever changes jobs excludes the others: a batch takes milliseconds, and nobody who waits for a webhook's answer waits
-- for this.
SELECT pg_advisory_xact_lock(1886545271, 3);

-- name: MergeForgeJobs :many
-- What was told of each attempt of a job goes into its row; the same, in whatever order and however often, makes the same
-- row. No job twice in one statement.
--
-- A state grows. What is told once stays, and where two tellings differ, the greater stays, which has no meaning but that it
-- is the same one in every order. A runner is told as a whole, and the one of the later state stays. The forge's word on
-- how a job ended replaces ours ("gone", "superseded").
--
-- An entity's webhook speaks for its own jobs only: a row that another entity reported, of another repository, stays as it
-- is and is not returned.
INSERT INTO forge_jobs AS j (id, organization_id, forge_url, job_id, attempt, entity_id, repository, run_id, workflow, name,
  url, labels, state, conclusion, runner_id, runner_name, runner_state, queued_at, started_at, completed_at, seen_at,
  updated_at)
SELECT n.id, @organization_id, @forge_url, n.job_id, n.attempt, @entity_id, n.repository, n.run_id, n.workflow, n.name,
       n.url, string_to_array(n.labels, E'\x1f'), n.state, n.conclusion, nullif(n.runner_id, 0), n.runner_name,
       CASE WHEN n.runner_name <> '' OR n.runner_id <> 0 THEN n.state END,
       coalesce(nullif(n.queued_at, timestamptz '0001-01-01 00:00:00+00'), prewarm_now()),
       coalesce(nullif(n.started_at, timestamptz '0001-01-01 00:00:00+00'),
                CASE WHEN n.state = 'in_progress' THEN prewarm_now() END),
       coalesce(nullif(n.completed_at, timestamptz '0001-01-01 00:00:00+00'),
                CASE WHEN n.state = 'completed' THEN prewarm_now() END),
       prewarm_now(), prewarm_now()
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@job_ids::bigint[]) AS job_id, unnest(@attempts::integer[]) AS attempt,
             unnest(@repositories::text[]) AS repository, unnest(@run_ids::bigint[]) AS run_id,
             unnest(@workflows::text[]) AS workflow, unnest(@names::text[]) AS name, unnest(@urls::text[]) AS url,
             unnest(@label_sets::text[]) AS labels, unnest((@states::text[])::forge_job_state[]) AS state,
             unnest(@conclusions::text[]) AS conclusion, unnest(@runner_ids::bigint[]) AS runner_id,
             unnest(@runner_names::text[]) AS runner_name, unnest(@queued_at::timestamptz[]) AS queued_at,
             unnest(@started_at::timestamptz[]) AS started_at, unnest(@completed_at::timestamptz[]) AS completed_at) n
ON CONFLICT (forge_url, job_id, attempt) DO UPDATE
SET state = greatest(j.state, excluded.state),
    repository = greatest(j.repository, excluded.repository), run_id = greatest(j.run_id, excluded.run_id),
    workflow = greatest(j.workflow, excluded.workflow), name = greatest(j.name, excluded.name),
    url = greatest(j.url, excluded.url), labels = greatest(j.labels, excluded.labels),
    conclusion = CASE
      WHEN excluded.conclusion = '' OR (excluded.conclusion IN ('gone', 'superseded') AND j.conclusion <> '') THEN j.conclusion
      WHEN j.conclusion IN ('gone', 'superseded') THEN excluded.conclusion
      ELSE greatest(j.conclusion, excluded.conclusion) END,
    completed_at = CASE WHEN j.conclusion IN ('gone', 'superseded') AND excluded.conclusion NOT IN ('', 'gone', 'superseded')
      THEN excluded.completed_at ELSE least(j.completed_at, excluded.completed_at) END,
    (runner_state, runner_id, runner_name, workspace_id, incarnation) = (
      SELECT r.state, r.id, r.name, r.workspace_id, r.incarnation
      FROM (VALUES (j.runner_state, j.runner_id, j.runner_name, j.workspace_id, j.incarnation),
        (excluded.runner_state, excluded.runner_id, excluded.runner_name,
         CASE WHEN excluded.runner_name = j.runner_name THEN j.workspace_id END,
         CASE WHEN excluded.runner_name = j.runner_name THEN j.incarnation END))
        AS r(state, id, name, workspace_id, incarnation)
      ORDER BY r.state DESC NULLS LAST, r.id DESC NULLS LAST, r.name DESC LIMIT 1),
    -- An enterprise is kept, since what it covers can't be told from the repository.
    entity_id = coalesce((SELECT e.id FROM forge_entities e WHERE e.id IN (j.entity_id, excluded.entity_id)
                          ORDER BY e.scope DESC, e.id LIMIT 1), j.entity_id),
    queued_at = least(j.queued_at, excluded.queued_at), started_at = least(j.started_at, excluded.started_at),
    unserved = CASE WHEN greatest(j.state, excluded.state) = 'queued' THEN j.unserved ELSE '' END,
    -- To whom it was announced says nothing about whose demand it is: that is decided, and told to passes, when it is queued.
    preset_id = CASE WHEN j.state = 'waiting' AND excluded.state <> 'waiting' THEN NULL ELSE j.preset_id END,
    seen_at = greatest(j.seen_at, excluded.seen_at),
    updated_at = CASE WHEN excluded.state > j.state OR excluded.runner_state > j.runner_state
                        OR (excluded.runner_state IS NOT NULL AND j.runner_state IS NULL)
                        OR (excluded.conclusion <> '' AND excluded.conclusion <> j.conclusion)
      THEN prewarm_now() ELSE j.updated_at END
WHERE j.entity_id = excluded.entity_id OR lower(j.repository) = lower(excluded.repository)
RETURNING j.id, j.preset_id, j.state;

-- name: SupersedeForgeJobs :many
-- A rerun ends the attempts before it, of which the forge may never say how they ended.
UPDATE forge_jobs o
SET state = 'completed', conclusion = 'superseded', completed_at = prewarm_now(), unserved = '', updated_at = prewarm_now()
WHERE o.state <> 'completed' AND o.forge_url = @forge_url AND o.job_id = ANY (@job_ids::bigint[])
  AND EXISTS (SELECT FROM forge_jobs n WHERE n.forge_url = o.forge_url AND n.job_id = o.job_id AND n.attempt > o.attempt
                AND (n.entity_id = o.entity_id OR lower(n.repository) = lower(o.repository)))
RETURNING o.id, o.preset_id;

-- name: BindForgeJobs :many
-- Which workspace the runner of each job is, by its name among the runners that may be given it, and whose preset. What began or ended is nobody's demand any more:
-- its preset is its runner's, or none. What was found once stays, also when the runner's row is gone.
UPDATE forge_jobs j
SET workspace_id = x.workspace_id, incarnation = x.incarnation, preset_id = x.preset_id, updated_at = prewarm_now()
FROM (
  SELECT o.id, r.workspace_id, r.incarnation, r.preset_id
  FROM forge_jobs o
  LEFT JOIN LATERAL (
    SELECT f.workspace_id, f.incarnation, f.preset_id
    FROM forge_credentials c
    JOIN forge_entities e ON e.credential_id = c.id
    JOIN forge_runners f ON f.entity_id = e.id
    WHERE o.runner_name <> '' AND c.url = o.forge_url AND f.name = o.runner_name
      AND prewarm_may_run(e.id, e.organization_id, e.scope, e.path, o.entity_id, o.organization_id, o.repository)
    ORDER BY coalesce(f.runner_id = o.runner_id, false) DESC, f.created_at DESC, f.incarnation DESC
    LIMIT 1
  ) r ON true
  WHERE o.id = ANY (@ids::uuid[]) AND o.state IN ('in_progress', 'completed')
) x
WHERE j.id = x.id AND (x.workspace_id IS NOT NULL OR j.workspace_id IS NULL)
  AND (j.workspace_id, j.incarnation, j.preset_id) IS DISTINCT FROM (x.workspace_id, x.incarnation, x.preset_id)
RETURNING j.id;

-- name: UnboundForgeJobs :many
-- Jobs under way on a runner that was not one of ours when it was looked for.
SELECT id FROM forge_jobs WHERE state = 'in_progress' AND state <> 'completed' AND runner_name <> '' AND workspace_id IS NULL;

-- name: QueuedForgeJobs :many
SELECT id, organization_id, forge_url, entity_id, repository, labels, preset_id, unserved, queued_at
FROM forge_jobs WHERE state = 'queued' ORDER BY queued_at, id;

-- name: WaitingForgeJobs :many
-- Jobs that the forge holds back. They are no demand, but whose they will be is known.
SELECT id, organization_id, forge_url, entity_id, repository, labels, preset_id, queued_at
FROM forge_jobs WHERE state = 'waiting' AND state <> 'completed' ORDER BY queued_at, id;

-- name: BusyRunners :many
-- Jobs under way by the preset of their runner.
SELECT preset_id, count(*)::integer AS jobs FROM forge_jobs
WHERE state = 'in_progress' AND state <> 'completed' AND preset_id IS NOT NULL GROUP BY preset_id;

-- name: RunnerPresets :many
-- Runner presets with what matching asks of them, also those that serve nothing now, as that is a reason to tell.
SELECT p.id, p.organization_id, p.template_id, (t.name || '/' || p.name)::text AS name, p.priority,
       p.runner_labels AS labels, coalesce(p.runner_maximum, 0)::integer AS maximum, e.id AS entity_id, e.name AS entity,
       e.scope, e.path, c.url AS forge_url, (e.stopped_at IS NOT NULL)::boolean AS stopped, e.stopped_reason,
       (t.deprecated_at IS NOT NULL)::boolean AS deprecated, (pr.deleted_at IS NOT NULL)::boolean AS provider_deleted
FROM presets p
JOIN templates t ON t.id = p.template_id AND t.deleted_at IS NULL
JOIN providers pr ON pr.name = t.provider
JOIN forge_entities e ON e.id = p.forge_entity_id AND e.deleted_at IS NULL
JOIN forge_credentials c ON c.id = e.credential_id
WHERE p.forge_entity_id IS NOT NULL AND p.deleted_at IS NULL;

-- name: EntityBalances :many
-- How each entity balances among presets of one priority.
SELECT id, balance FROM forge_entities;

-- name: AssignForgeJobs :many
-- Whose demand they are, or will be, where that changed.
UPDATE forge_jobs j
SET preset_id = a.preset_id, unserved = a.unserved, updated_at = prewarm_now()
FROM (SELECT unnest(@ids::uuid[]) AS id, nullif(unnest(@preset_ids::uuid[]), uuid '00000000-0000-0000-0000-000000000000') AS preset_id,
             unnest(@reasons::text[]) AS unserved) a
WHERE j.id = a.id AND j.state IN ('waiting', 'queued')
RETURNING j.id;

-- name: TemplatesOfPresets :many
SELECT DISTINCT template_id FROM presets WHERE id = ANY (@preset_ids::uuid[]);

-- name: ForgeRepositories :many
-- Those that jobs of an entity were of, in order, each found by one step in the index.
WITH RECURSIVE r AS (
  (SELECT j.repository FROM forge_jobs j WHERE j.entity_id = @entity_id ORDER BY j.repository LIMIT 1)
  UNION ALL
  SELECT (SELECT j.repository FROM forge_jobs j WHERE j.entity_id = @entity_id AND j.repository > r.repository
          ORDER BY j.repository LIMIT 1)
  FROM r WHERE r.repository IS NOT NULL
)
SELECT r.repository::text AS repository FROM r WHERE r.repository IS NOT NULL;

-- name: ForgeJobsToAsk :many
-- Open jobs of an entity that the forge has said nothing of for a while, and that were not asked after meanwhile.
SELECT id, job_id, attempt, repository, (seen_at < prewarm_now() - interval '1 day')::boolean AS lost FROM forge_jobs
WHERE state <> 'completed' AND entity_id = @entity_id
  AND greatest(seen_at, asked_at) < prewarm_now() - sqlc.arg(quiet_s)::double precision * interval '1 second'
ORDER BY greatest(seen_at, asked_at), id
LIMIT @max_jobs;

-- name: StoreAsked :exec
UPDATE forge_jobs SET asked_at = prewarm_now() WHERE id = ANY (@ids::uuid[]);

-- name: StoreJobsListed :exec
INSERT INTO forge_status (entity_id, jobs_listed_at) VALUES (@entity_id, sqlc.arg(listed_at)::timestamptz)
ON CONFLICT (entity_id) DO UPDATE SET jobs_listed_at = excluded.jobs_listed_at;
