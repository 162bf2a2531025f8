-- The pass (DESIGN section 3): one REPEATABLE READ transaction, a constant number of statements, linear in unclaimed
-- rows. Full and targeted passes have a statement each where one plan would not serve both.

-- name: TransactionNow :one
-- The instant that a transaction reads everything at.
SELECT prewarm_transaction_now()::timestamptz AS now;

-- name: SetPassTimeouts :exec
-- Bounds of this transaction only. They do not bound a holder that is frozen; see PassLockHolder.
SELECT set_config('statement_timeout', '20s', true), set_config('lock_timeout', '5s', true),
       set_config('idle_in_transaction_session_timeout', '10s', true);

-- name: TryPassLock :one
SELECT pg_try_advisory_xact_lock(1886545271, 1) AS locked;

-- name: AdvanceFence :one
-- Fails with 40001 if a pass committed since this transaction's snapshot. A nudge pass becomes a full one when the last
-- full pass is overdue, so that nudges can't starve ticks.
UPDATE reconcile_fence
SET seq = seq + 1, holder = @holder, began_at = prewarm_transaction_now(),
    full_seq = CASE WHEN @is_full::boolean OR full_began_at IS NULL
                      OR full_began_at < prewarm_now() - sqlc.arg(overdue_s)::double precision * interval '1 second'
                    THEN seq + 1 ELSE full_seq END,
    full_began_at = CASE WHEN @is_full::boolean OR full_began_at IS NULL
                           OR full_began_at < prewarm_now() - sqlc.arg(overdue_s)::double precision * interval '1 second'
                         THEN prewarm_transaction_now() ELSE full_began_at END
RETURNING seq, (full_seq = seq)::boolean AS is_full, prewarm_transaction_now()::timestamptz AS began_at;

-- name: PassLockHolder :one
-- Who holds the pass's lock, and since when its transaction runs.
SELECT a.pid::integer AS pid, a.xact_start::timestamptz AS xact_start, coalesce(a.application_name, '')::text AS application_name
FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.classid = 1886545271 AND l.objid = 1 AND l.objsubid = 2 AND l.granted
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database());

-- name: EndPassLockHolder :execrows
-- Ends that backend if it still is in that transaction.
SELECT pg_terminate_backend(a.pid) FROM pg_catalog.pg_stat_activity a
WHERE a.pid = @pid::integer AND a.xact_start = @xact_start::timestamptz;

-- name: MarkTemplatePasses :exec
-- A nudge may be for a template that is not there, which must not fail the pass of the others.
INSERT INTO template_passes (template_id, began_at)
SELECT t.id, prewarm_transaction_now() FROM templates t WHERE t.id = ANY (@template_ids::uuid[])
ON CONFLICT (template_id) DO UPDATE SET began_at = excluded.began_at;

-- name: SnapshotPresets :many
-- Every live preset, and every retired one that still has unclaimed workspaces. A size that autosize has not renewed for a
-- quarter of an hour is none; one from before a change of its bounds is within them at once.
SELECT p.id, p.template_id, p.name, p.pool_key, p.instances, p.priority, p.deleted_at, p.schedule, p.ttl_s,
       p.min_remaining_s, t.boot_timeout_s, p.standby_running,
       t.name AS template, t.provider, t.keep_outdated, t.deprecated_at AS template_deprecated_at,
       t.deleted_at AS template_deleted_at,
       (SELECT count(*) FROM claims c
        WHERE c.preset_id = p.id AND c.state = 'waiting' AND c.deadline_at > prewarm_now())::int AS waiting,
       coalesce(f.streak, 0)::int AS failure_streak, f.last_at AS failure_at, coalesce(f.last_error, '') AS failure,
       coalesce(f.permanent, 0)::int AS failures_permanent, f.first_at AS failing_since,
       t.max_surge, t.max_unavailable, t.progress_deadline_s, t.creates_in_flight AS template_creates_in_flight,
       p.creates_in_flight, p.rollout_at, (proof.preset_id IS NULL)::boolean AS unproven, s.digest,
       (CASE WHEN z.size IS NULL THEN -1
             ELSE least(greatest(z.size, (p.autosize ->> 'min')::int), (p.autosize ->> 'max')::int) END)::int AS autosized,
       p.all_machines, p.forge_entity_id, p.runner_maximum, s.shrunk_at,
       -- Asked of presets of runners only, and what is claimed only where there is a maximum.
       (CASE WHEN p.forge_entity_id IS NULL THEN 0
             ELSE (SELECT count(*) FROM forge_jobs j WHERE j.state = 'queued' AND j.preset_id = p.id) END)::int AS queued,
       (CASE WHEN p.forge_entity_id IS NULL OR p.runner_maximum IS NULL THEN 0
             ELSE (SELECT count(*) FROM workspaces w WHERE w.state = 'claimed' AND w.preset_id = p.id) END)::int AS busy
FROM presets p
JOIN templates t ON t.id = p.template_id
LEFT JOIN preset_failures f ON f.preset_id = p.id AND f.pool_key = p.pool_key
LEFT JOIN pool_proofs proof ON proof.preset_id = p.id AND proof.pool_key = p.pool_key
LEFT JOIN preset_status s ON s.preset_id = p.id
LEFT JOIN preset_sizes z ON z.preset_id = p.id AND p.autosize ->> 'mode' = 'apply'
  AND z.computed_at > prewarm_now() - interval '15 minutes'
WHERE (p.deleted_at IS NULL AND t.deleted_at IS NULL)
   OR EXISTS (SELECT FROM workspaces w WHERE w.template_id = p.template_id AND w.preset_id = p.id
                AND w.state NOT IN ('claimed', 'deleted'));

-- name: SnapshotPresetsOf :many
SELECT p.id, p.template_id, p.name, p.pool_key, p.instances, p.priority, p.deleted_at, p.schedule, p.ttl_s,
       p.min_remaining_s, t.boot_timeout_s, p.standby_running,
       t.name AS template, t.provider, t.keep_outdated, t.deprecated_at AS template_deprecated_at,
       t.deleted_at AS template_deleted_at,
       (SELECT count(*) FROM claims c
        WHERE c.preset_id = p.id AND c.state = 'waiting' AND c.deadline_at > prewarm_now())::int AS waiting,
       coalesce(f.streak, 0)::int AS failure_streak, f.last_at AS failure_at, coalesce(f.last_error, '') AS failure,
       coalesce(f.permanent, 0)::int AS failures_permanent, f.first_at AS failing_since,
       t.max_surge, t.max_unavailable, t.progress_deadline_s, t.creates_in_flight AS template_creates_in_flight,
       p.creates_in_flight, p.rollout_at, (proof.preset_id IS NULL)::boolean AS unproven, s.digest,
       (CASE WHEN z.size IS NULL THEN -1
             ELSE least(greatest(z.size, (p.autosize ->> 'min')::int), (p.autosize ->> 'max')::int) END)::int AS autosized,
       p.all_machines, p.forge_entity_id, p.runner_maximum, s.shrunk_at,
       -- Asked of presets of runners only, and what is claimed only where there is a maximum.
       (CASE WHEN p.forge_entity_id IS NULL THEN 0
             ELSE (SELECT count(*) FROM forge_jobs j WHERE j.state = 'queued' AND j.preset_id = p.id) END)::int AS queued,
       (CASE WHEN p.forge_entity_id IS NULL OR p.runner_maximum IS NULL THEN 0
             ELSE (SELECT count(*) FROM workspaces w WHERE w.state = 'claimed' AND w.preset_id = p.id) END)::int AS busy
FROM presets p
JOIN templates t ON t.id = p.template_id
LEFT JOIN preset_failures f ON f.preset_id = p.id AND f.pool_key = p.pool_key
LEFT JOIN pool_proofs proof ON proof.preset_id = p.id AND proof.pool_key = p.pool_key
LEFT JOIN preset_status s ON s.preset_id = p.id
LEFT JOIN preset_sizes z ON z.preset_id = p.id AND p.autosize ->> 'mode' = 'apply'
  AND z.computed_at > prewarm_now() - interval '15 minutes'
WHERE p.template_id = ANY (@template_ids::uuid[])
  AND ((p.deleted_at IS NULL AND t.deleted_at IS NULL)
   OR EXISTS (SELECT FROM workspaces w WHERE w.template_id = p.template_id AND w.preset_id = p.id
                AND w.state NOT IN ('claimed', 'deleted')));

-- name: SnapshotStoppedForges :many
-- Those of these that are stopped; read only where there are presets of runners.
SELECT id, name, stopped_reason, coalesce(drain_at >= stopped_at, false)::boolean AS drains
FROM forge_entities WHERE stopped_at IS NOT NULL AND id = ANY (@ids::uuid[]);

-- name: SnapshotCold :many
-- Waiting claims that want a workspace built for them; they are among the waiting ones that are counted above.
SELECT preset_id, created_at FROM claims
WHERE state = 'waiting' AND cold AND deadline_at > prewarm_now()
ORDER BY preset_id, created_at DESC;

-- name: SnapshotWorkspaces :many
-- The two sets are hashed once, whatever the planner believes: right after a pass has made thousands of jobs it still
-- thinks that there are none, and would join by reading all of them for every workspace.
SELECT w.id, w.preset_id, w.pool_key, w.provider, w.state, w.incarnation, w.created_at, w.expires_at,
       ((w.id, w.incarnation) IN (SELECT i.workspace_id, i.incarnation FROM intents i))::boolean AS has_intent,
       (w.id IN (SELECT j.workspace_id FROM jobs j
                 WHERE j.state IN ('pending', 'running') AND j.kind = 'create' AND j.attempt > 0))::boolean AS leased,
       (w.ready_at IS NOT NULL)::boolean AS was_ready,
       ((w.id, w.incarnation) IN (SELECT m.workspace_id, m.incarnation FROM standby_moves m))::boolean AS moving,
       (w.gone_at IS NOT NULL AND w.state IN ('quarantined', 'draining', 'deleting'))::boolean AS gone
FROM workspaces w
WHERE w.state NOT IN ('claimed', 'deleted');

-- name: SnapshotWorkspacesOf :many
SELECT w.id, w.preset_id, w.pool_key, w.provider, w.state, w.incarnation, w.created_at, w.expires_at,
       (i.workspace_id IS NOT NULL)::boolean AS has_intent, (j.id IS NOT NULL)::boolean AS leased,
       (w.ready_at IS NOT NULL)::boolean AS was_ready, (m.workspace_id IS NOT NULL)::boolean AS moving,
       (w.gone_at IS NOT NULL AND w.state IN ('quarantined', 'draining', 'deleting'))::boolean AS gone
FROM workspaces w
LEFT JOIN intents i ON i.workspace_id = w.id AND i.incarnation = w.incarnation
LEFT JOIN standby_moves m ON m.workspace_id = w.id AND m.incarnation = w.incarnation
LEFT JOIN jobs j ON j.workspace_id = w.id AND j.state IN ('pending', 'running') AND j.kind = 'create' AND j.attempt > 0
WHERE w.state NOT IN ('claimed', 'deleted') AND w.template_id = ANY (@template_ids::uuid[]);

-- name: SnapshotRunnersAtJobs :many
-- Runners among the unclaimed that are at a job: as their forge lists them, or as the job itself says, which is known earlier.
-- Each is looked up by its key, by the limits: the many that are at their jobs and claimed cost nothing.
SELECT w.id, w.incarnation
FROM workspaces w
CROSS JOIN LATERAL (
  SELECT r.status FROM forge_runners r WHERE r.workspace_id = w.id AND r.incarnation = w.incarnation LIMIT 1
) r
LEFT JOIN LATERAL (
  SELECT true AS known FROM forge_jobs j
  WHERE r.status <> 'active' AND j.workspace_id = w.id AND j.incarnation = w.incarnation AND j.state = 'in_progress' LIMIT 1
) j ON true
WHERE w.state NOT IN ('claimed', 'deleted') AND w.template_id = ANY (@template_ids::uuid[])
  AND w.preset_id = ANY (@preset_ids::uuid[]) AND (r.status = 'active' OR j.known);

-- name: StoreShrunk :exec
-- When surplus runners went (P8); written by passes only, under the fence.
UPDATE preset_status SET shrunk_at = @at WHERE preset_id = ANY (@preset_ids::uuid[]);

-- name: SnapshotProviders :many
-- Live counts claimed rows too, so it is read only where there is a maximum, by full passes, and by nudge passes at the
-- providers of their templates where nothing is left to spend: what has ended since makes room. What is known to be gone
-- takes no place. A provider with sites counts as broken while no other site of it works: creates go there.
SELECT p.name, p.maximum, p.chunk, h.instances AS headroom, p.create_every_s, p.create_burst, r.full_at,
       coalesce((SELECT i.reason FROM inventories i
                 WHERE i.provider = p.name AND i.opened_at IS NOT NULL AND NOT EXISTS (
                   SELECT FROM inventories o
                   WHERE o.provider = p.name AND o.opened_at IS NULL
                     AND o.complete_at > prewarm_now() - interval '10 minutes')
                 ORDER BY i.opened_at, i.site LIMIT 1), '')::text AS breaker,
       c.counted::boolean AS counted,
       (CASE WHEN c.counted THEN prewarm_places(p.name) ELSE 0 END)::int AS live,
       -- What a provider whose machines exist beforehand has left: those that nobody has, less the workspaces that have none
       -- yet (S4). By a listing that is stale, or not there, nothing.
       p.reserves, (p.deleted_at IS NOT NULL)::boolean AS deleted, p.delete_forced,
       (CASE WHEN p.reserves AND p.machines_listed_at > prewarm_now() - interval '5 minutes'
             THEN (SELECT count(*) FROM provider_machines m
                   WHERE m.provider = p.name AND m.workspace_id IS NULL AND m.state = 'unused'
                     AND (m.retry_at IS NULL OR m.retry_at <= prewarm_now()))
                - (SELECT count(*) FROM workspaces w
                   WHERE w.provider = p.name AND w.state NOT IN ('claimed', 'deleted') AND w.state = 'provisioning'
                     AND NOT EXISTS (SELECT FROM provider_machines m WHERE m.workspace_id = w.id))
             ELSE 0 END)::int AS available,
       (p.reserves AND coalesce(p.machines_listed_at <= prewarm_now() - interval '5 minutes', true))::boolean AS stale
FROM providers p
LEFT JOIN headroom h ON h.provider = p.name AND h.maximum = p.maximum
LEFT JOIN create_rates r ON r.provider = p.name
CROSS JOIN LATERAL (
  SELECT p.maximum > 0 AND p.emptied_at IS NULL AND (@is_full::boolean OR coalesce(h.instances = 0, false)
    AND EXISTS (SELECT FROM templates t WHERE t.id = ANY (@template_ids::uuid[]) AND t.provider = p.name)) AS counted
) c;

-- name: SnapshotHeldBack :many
-- The templates that a maximum held back at the providers of these, where nothing was left to spend and there is room by
-- now: the nudge that an end has sent is about them too.
WITH freed AS MATERIALIZED (
  SELECT p.name FROM providers p
  JOIN headroom h ON h.provider = p.name AND h.maximum = p.maximum AND h.instances = 0
  WHERE p.maximum > 0 AND p.name IN (SELECT t.provider FROM templates t WHERE t.id = ANY (@template_ids::uuid[]))
    AND prewarm_places(p.name) < p.maximum
)
SELECT DISTINCT t.id FROM templates t
JOIN presets pr ON pr.template_id = t.id
JOIN preset_status s ON s.preset_id = pr.id
WHERE t.provider IN (SELECT f.name FROM freed f) AND t.deleted_at IS NULL AND pr.deleted_at IS NULL
  AND t.id <> ALL (@template_ids::uuid[]) AND s.ledger -> 'creates' @> '[{"code": "provider_maximum"}]'
ORDER BY t.id;

-- name: SnapshotPauses :many
SELECT scope, target, reason, expires_at FROM pauses WHERE expires_at IS NULL OR expires_at > prewarm_now();

-- name: StoreHeadroom :exec
INSERT INTO headroom (provider, maximum, instances)
SELECT unnest(@providers::text[]), unnest(@maxima::integer[]), unnest(@instances::integer[])
ON CONFLICT (provider) DO UPDATE SET maximum = excluded.maximum, instances = excluded.instances;

-- name: StoreCreateRates :exec
-- What passes have begun of what the rates of creates allow; written by passes only, under the fence.
INSERT INTO create_rates (provider, full_at)
SELECT unnest(@providers::text[]), unnest(@full_at::timestamptz[])
ON CONFLICT (provider) DO UPDATE SET full_at = excluded.full_at;

-- name: InsertIntents :exec
-- Plain inserts: passes exclude one another, and the snapshot showed which there are.
INSERT INTO intents (workspace_id, incarnation, kind, reason, created_at)
SELECT unnest(@workspace_ids::uuid[]), unnest(@incarnations::integer[]), unnest((@kinds::text[])::intent_kind[]),
       unnest(@reasons::text[]), prewarm_now();

-- name: ActiveVersions :many
-- The numbers of the active versions, for the log.
SELECT t.id, v.number FROM templates t JOIN template_versions v ON v.id = t.active_version_id
WHERE t.id = ANY (@template_ids::uuid[]);

-- name: WorkspaceNames :many
-- What workspaces are called, for the log.
SELECT id, name FROM workspaces WHERE id = ANY (@ids::uuid[]);

-- name: StoreStatus :exec
INSERT INTO preset_status (preset_id, counts, ledger, error, digest, pass_seq, changed_at)
SELECT unnest(@preset_ids::uuid[]), unnest(@counts::jsonb[]), unnest(@ledgers::jsonb[]), unnest(@errors::text[]),
       unnest(@digests::bytea[]), @pass_seq, prewarm_now()
ON CONFLICT (preset_id) DO UPDATE
SET counts = excluded.counts, ledger = excluded.ledger, error = excluded.error, digest = excluded.digest,
    pass_seq = excluded.pass_seq, changed_at = excluded.changed_at;

-- name: PublishNudges :exec
-- Tells the other replicas, with the instant at which it did: a pass that began later has seen what the nudge is about.
-- Each carries the trace of what it is about, empty for none.
SELECT pg_notify('prewarm_nudge', json_build_object(
  'from', @sender::text, 'template', t.id, 'at_us', (extract(epoch FROM prewarm_now()) * 1000000)::bigint,
  'trace', t.trace)::text)
FROM (SELECT unnest(@template_ids::uuid[]) AS id, unnest(@traces::text[]) AS trace) t;

-- name: PassesOf :many
-- When the last pass that covered each of these templates began; read before a pass, to drop nudges already served.
SELECT t.id AS template_id, greatest(p.began_at, f.full_began_at)::timestamptz AS began_at
FROM templates t
CROSS JOIN reconcile_fence f
LEFT JOIN template_passes p ON p.template_id = t.id
WHERE t.id = ANY (@template_ids::uuid[]) AND greatest(p.began_at, f.full_began_at) IS NOT NULL;

-- name: InsertMoves :exec
-- What a pass wants moved between the tiers. Plain inserts: passes exclude one another, and the snapshot showed which there
-- are.
INSERT INTO standby_moves (workspace_id, incarnation, kind, reason, created_at)
SELECT unnest(@workspace_ids::uuid[]), unnest(@incarnations::integer[]), unnest((@kinds::text[])::standby_move_kind[]),
       unnest(@reasons::text[]), prewarm_now();
