-- What people see. Nothing here locks or writes.

-- name: PresetViews :many
-- All presets, or one, with their live counts (C3), by the views of migration 00027. The counts are materialized, so that
-- workspaces are read once for all presets and not once for each, however wrong the planner guesses. Claimed ones cost an
-- index-only count, deleted ones nothing. What is extraneous the last pass decided (it also knows what is being renewed, and
-- what is for claims that want a workspace of their own), of what can still be by what is there now.
WITH unclaimed AS MATERIALIZED (
  SELECT w.preset_id,
         count(*) FILTER (WHERE w.class = 'actual') AS actual,
         count(*) FILTER (WHERE w.class = 'starting') AS starting,
         count(*) FILTER (WHERE w.class = 'stopping') AS stopping,
         count(*) FILTER (WHERE w.class = 'deleting') AS deleting,
         count(*) FILTER (WHERE w.class = 'outdated') AS outdated,
         count(*) FILTER (WHERE w.class = 'expired') AS expired,
         count(*) FILTER (WHERE w.class = 'quarantined') AS quarantined,
         count(*) FILTER (WHERE w.eligible) AS eligible,
         count(*) FILTER (WHERE w.class = 'actual' AND w.state = 'standby') AS standby,
         count(*) FILTER (WHERE w.class IN ('actual', 'starting') AND NOT w.at_job) AS free
  FROM unclaimed_workspaces w
  WHERE sqlc.narg(preset_id)::uuid IS NULL OR w.preset_id = sqlc.narg(preset_id)::uuid
  GROUP BY w.preset_id
), claimed AS MATERIALIZED (
  SELECT w.preset_id, count(*) AS n FROM workspaces w
  WHERE w.state = 'claimed' AND (sqlc.narg(preset_id)::uuid IS NULL OR w.preset_id = sqlc.narg(preset_id)::uuid)
  GROUP BY w.preset_id
), waiting AS MATERIALIZED (
  SELECT c.preset_id, count(*) AS n, count(*) FILTER (WHERE NOT c.cold) AS warm
  FROM claims c WHERE c.state = 'waiting' AND c.deadline_at > prewarm_now()
  GROUP BY c.preset_id
), queued AS MATERIALIZED (
  SELECT j.preset_id, count(*) AS n FROM forge_jobs j WHERE j.state = 'queued' AND j.preset_id IS NOT NULL
  GROUP BY j.preset_id
)
SELECT p.id, o.name AS organization, p.template_id, t.name AS template, p.name AS preset,
       coalesce(v.number, 0)::int AS version, t.provider, p.parameters, (p.instances IS NOT NULL)::boolean AS pool,
       (t.deprecated_at IS NOT NULL)::boolean AS deprecated, p.ttl_s, p.ttl_jitter, p.min_remaining_s, p.priority,
       p.instances, p.schedule, prewarm_now()::timestamptz AS now, d.desired,
       coalesce(forge.name, '') AS forge, p.runner_labels, p.runner_group, p.runner_maximum,
       p.runner_registration_timeout_s,
       coalesce(u.actual, 0)::int AS actual, coalesce(u.standby, 0)::int AS standby,
       coalesce(u.eligible, 0)::int AS eligible,
       coalesce(u.starting, 0)::int AS starting, coalesce(u.stopping, 0)::int AS stopping,
       coalesce(u.deleting, 0)::int AS deleting, coalesce(u.outdated, 0)::int AS outdated,
       coalesce(u.expired, 0)::int AS expired, coalesce(u.quarantined, 0)::int AS quarantined,
       coalesce(waiting.n, 0)::int AS waiting, coalesce(claimed.n, 0)::int AS claimed,
       coalesce(queued.n, 0)::int AS queued,
       least((s.counts ->> 'extraneous')::int,
             greatest(0, coalesce(u.free, 0) - d.desired
                         - CASE WHEN t.deprecated_at IS NULL AND pr.deleted_at IS NULL THEN coalesce(waiting.warm, 0) + coalesce(queued.n, 0)
                                ELSE 0 END))::int AS extraneous,
       coalesce(s.ledger, 'null')::jsonb AS ledger, coalesce(s.error, '') AS error, s.changed_at AS passed_at,
       coalesce(z.unattainable, '') AS unattainable,
       coalesce(f.streak, 0)::int AS failures, coalesce(f.last_error, '') AS last_error,
       coalesce(pause.scope::text, '')::text AS paused_scope, coalesce(pause.reason, '')::text AS paused_reason, pause.expires_at AS paused_until
FROM presets p
JOIN organizations o ON o.id = p.organization_id
JOIN templates t ON t.id = p.template_id
JOIN providers pr ON pr.name = t.provider
LEFT JOIN template_versions v ON v.id = t.active_version_id
LEFT JOIN preset_status s ON s.preset_id = p.id
LEFT JOIN preset_failures f ON f.preset_id = p.id AND f.pool_key = p.pool_key
LEFT JOIN preset_sizes z ON z.preset_id = p.id AND p.autosize ->> 'mode' = 'apply'
  AND z.computed_at > prewarm_now() - interval '15 minutes'
JOIN desired_prebuilds d ON d.preset_id = p.id
LEFT JOIN unclaimed u ON u.preset_id = p.id
LEFT JOIN claimed ON claimed.preset_id = p.id
LEFT JOIN waiting ON waiting.preset_id = p.id
LEFT JOIN queued ON queued.preset_id = p.id AND p.forge_entity_id IS NOT NULL
LEFT JOIN forge_entities forge ON forge.id = p.forge_entity_id
LEFT JOIN preset_pauses pause ON pause.preset_id = p.id
WHERE p.organization_id = @organization_id AND p.deleted_at IS NULL AND t.deleted_at IS NULL
  AND (sqlc.narg(preset_id)::uuid IS NULL OR p.id = sqlc.narg(preset_id)::uuid)
ORDER BY t.name, p.name;

-- name: PresetNames :many
-- All there are, cheaply: to resolve a name, and to say what exists.
SELECT p.id, t.id AS template_id, t.name AS template, p.name AS preset
FROM presets p JOIN templates t ON t.id = p.template_id
WHERE p.organization_id = @organization_id AND p.deleted_at IS NULL AND t.deleted_at IS NULL
ORDER BY t.name, p.name;

-- name: PresetRef :one
SELECT p.id, t.id AS template_id
FROM presets p JOIN templates t ON t.id = p.template_id
WHERE t.organization_id = @organization_id AND t.name = @template AND p.name = @preset AND p.deleted_at IS NULL
  AND t.deleted_at IS NULL;

-- name: PresetParameters :many
-- Of one template, for a claim that says by its parameters which preset it wants.
SELECT p.name, p.parameters, (p.forge_entity_id IS NOT NULL)::boolean AS runners
FROM presets p JOIN templates t ON t.id = p.template_id
WHERE t.organization_id = @organization_id AND t.name = @template AND p.deleted_at IS NULL AND t.deleted_at IS NULL
ORDER BY p.name;

-- name: TemplateViews :many
SELECT t.id, o.name AS organization, t.name, t.description, t.provider, coalesce(v.number, 0)::int AS active_version,
       t.keep_outdated, t.boot_timeout_s, t.keep_failures, t.keep_failures_s, t.max_uses, t.max_surge, t.max_unavailable,
       t.progress_deadline_s, t.creates_in_flight, t.created_at, t.updated_at, t.deprecated_at,
       coalesce((SELECT array_agg(p.name ORDER BY p.name) FROM presets p
                 WHERE p.template_id = t.id AND p.deleted_at IS NULL), '{}')::text[] AS presets
FROM templates t
JOIN organizations o ON o.id = t.organization_id
LEFT JOIN template_versions v ON v.id = t.active_version_id
WHERE t.organization_id = @organization_id AND t.deleted_at IS NULL
  AND (sqlc.narg(name)::text IS NULL OR t.name = sqlc.narg(name)::text)
ORDER BY t.name;

-- name: TemplateNames :many
SELECT name FROM templates WHERE organization_id = @organization_id AND deleted_at IS NULL ORDER BY name;

-- name: VersionViews :many
SELECT v.id, v.number, v.hash, (v.id = t.active_version_id)::boolean AS active, v.provider, v.spec, v.agent, v.created_at,
       u.name AS created_by
FROM template_versions v
JOIN templates t ON t.id = v.template_id
JOIN users u ON u.id = v.created_by
WHERE v.template_id = @template_id
ORDER BY v.number DESC;

-- name: WorkspacePage :many
-- The ids of a page, newest first, from (after_at, after_id) on. There is a branch for each of the partial indexes, in
-- words that match its predicate, and the caller switches on those that the wanted state is in: with the state as a
-- parameter only, a prepared statement would come to read all rows. words are patterns, each of which must match what a
-- workspace is found by. The names are read once, and only where there are words; a branch reads its rows for
-- their order in any case.
SELECT page.id FROM (
  (SELECT w.id, w.created_at FROM workspaces w
    WHERE @claimed::boolean AND w.state = 'claimed'
      AND (sqlc.narg(state)::workspace_state IS NULL OR w.state = sqlc.narg(state)::workspace_state)
      AND w.organization_id = @organization_id
      AND (sqlc.narg(template)::text IS NULL
           OR w.template_id IN (SELECT t.id FROM templates t WHERE t.name = sqlc.narg(template)::text))
      AND (sqlc.narg(preset)::text IS NULL
           OR w.preset_id IN (SELECT p.id FROM presets p WHERE p.name = sqlc.narg(preset)::text))
      AND (sqlc.narg(words)::text[] IS NULL
           OR concat_ws(' ', w.name, w.provider, w.provider_id,
                        (SELECT jsonb_object_agg(p.id, t.name || '/' || p.name) FROM presets p JOIN templates t ON t.id = p.template_id) ->> w.preset_id::text,
                        (SELECT jsonb_object_agg(u.id, u.name) FROM users u) ->> w.owner_id::text) ILIKE ALL (sqlc.narg(words)::text[]))
      AND (sqlc.narg(after_at)::timestamptz IS NULL
           OR (w.created_at, w.id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
    ORDER BY w.created_at DESC, w.id DESC
    LIMIT @max_workspaces)
  UNION ALL
  (SELECT w.id, w.created_at FROM workspaces w
    WHERE @unclaimed::boolean AND w.state NOT IN ('claimed', 'deleted')
      AND (sqlc.narg(state)::workspace_state IS NULL OR w.state = sqlc.narg(state)::workspace_state)
      AND w.organization_id = @organization_id
      AND (sqlc.narg(template)::text IS NULL
           OR w.template_id IN (SELECT t.id FROM templates t WHERE t.name = sqlc.narg(template)::text))
      AND (sqlc.narg(preset)::text IS NULL
           OR w.preset_id IN (SELECT p.id FROM presets p WHERE p.name = sqlc.narg(preset)::text))
      AND (sqlc.narg(words)::text[] IS NULL
           OR concat_ws(' ', w.name, w.provider, w.provider_id,
                        (SELECT jsonb_object_agg(p.id, t.name || '/' || p.name) FROM presets p JOIN templates t ON t.id = p.template_id) ->> w.preset_id::text,
                        (SELECT jsonb_object_agg(u.id, u.name) FROM users u) ->> w.owner_id::text) ILIKE ALL (sqlc.narg(words)::text[]))
      AND (sqlc.narg(after_at)::timestamptz IS NULL
           OR (w.created_at, w.id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
    ORDER BY w.created_at DESC, w.id DESC
    LIMIT @max_workspaces)
  UNION ALL
  (SELECT w.id, w.created_at FROM workspaces w
    WHERE @deleted::boolean AND w.state = 'deleted'
      AND (sqlc.narg(state)::workspace_state IS NULL OR w.state = sqlc.narg(state)::workspace_state)
      AND w.organization_id = @organization_id
      AND (sqlc.narg(template)::text IS NULL
           OR w.template_id IN (SELECT t.id FROM templates t WHERE t.name = sqlc.narg(template)::text))
      AND (sqlc.narg(preset)::text IS NULL
           OR w.preset_id IN (SELECT p.id FROM presets p WHERE p.name = sqlc.narg(preset)::text))
      AND (sqlc.narg(words)::text[] IS NULL
           OR concat_ws(' ', w.name, w.provider, w.provider_id,
                        (SELECT jsonb_object_agg(p.id, t.name || '/' || p.name) FROM presets p JOIN templates t ON t.id = p.template_id) ->> w.preset_id::text,
                        (SELECT jsonb_object_agg(u.id, u.name) FROM users u) ->> w.owner_id::text) ILIKE ALL (sqlc.narg(words)::text[]))
      AND (sqlc.narg(after_at)::timestamptz IS NULL
           OR (w.created_at, w.id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
    ORDER BY w.created_at DESC, w.id DESC
    LIMIT @max_workspaces)
) page
ORDER BY page.created_at DESC, page.id DESC
LIMIT @max_workspaces;

-- name: WorkspacePageOf :many
-- The same for one owner.
SELECT page.id FROM (
  (SELECT w.id, w.created_at FROM workspaces w
    WHERE @claimed::boolean AND w.state = 'claimed'
      AND (sqlc.narg(state)::workspace_state IS NULL OR w.state = sqlc.narg(state)::workspace_state)
      AND w.organization_id = @organization_id
      AND w.owner_id = @owner_id
      AND (sqlc.narg(template)::text IS NULL
           OR w.template_id IN (SELECT t.id FROM templates t WHERE t.name = sqlc.narg(template)::text))
      AND (sqlc.narg(preset)::text IS NULL
           OR w.preset_id IN (SELECT p.id FROM presets p WHERE p.name = sqlc.narg(preset)::text))
      AND (sqlc.narg(words)::text[] IS NULL
           OR concat_ws(' ', w.name, w.provider, w.provider_id,
                        (SELECT jsonb_object_agg(p.id, t.name || '/' || p.name) FROM presets p JOIN templates t ON t.id = p.template_id) ->> w.preset_id::text,
                        (SELECT jsonb_object_agg(u.id, u.name) FROM users u) ->> w.owner_id::text) ILIKE ALL (sqlc.narg(words)::text[]))
      AND (sqlc.narg(after_at)::timestamptz IS NULL
           OR (w.created_at, w.id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
    ORDER BY w.created_at DESC, w.id DESC
    LIMIT @max_workspaces)
  UNION ALL
  (SELECT w.id, w.created_at FROM workspaces w
    WHERE @unclaimed::boolean AND w.state NOT IN ('claimed', 'deleted')
      AND (sqlc.narg(state)::workspace_state IS NULL OR w.state = sqlc.narg(state)::workspace_state)
      AND w.organization_id = @organization_id
      AND w.owner_id = @owner_id
      AND (sqlc.narg(template)::text IS NULL
           OR w.template_id IN (SELECT t.id FROM templates t WHERE t.name = sqlc.narg(template)::text))
      AND (sqlc.narg(preset)::text IS NULL
           OR w.preset_id IN (SELECT p.id FROM presets p WHERE p.name = sqlc.narg(preset)::text))
      AND (sqlc.narg(words)::text[] IS NULL
           OR concat_ws(' ', w.name, w.provider, w.provider_id,
                        (SELECT jsonb_object_agg(p.id, t.name || '/' || p.name) FROM presets p JOIN templates t ON t.id = p.template_id) ->> w.preset_id::text,
                        (SELECT jsonb_object_agg(u.id, u.name) FROM users u) ->> w.owner_id::text) ILIKE ALL (sqlc.narg(words)::text[]))
      AND (sqlc.narg(after_at)::timestamptz IS NULL
           OR (w.created_at, w.id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
    ORDER BY w.created_at DESC, w.id DESC
    LIMIT @max_workspaces)
  UNION ALL
  (SELECT w.id, w.created_at FROM workspaces w
    WHERE @deleted::boolean AND w.state = 'deleted'
      AND (sqlc.narg(state)::workspace_state IS NULL OR w.state = sqlc.narg(state)::workspace_state)
      AND w.organization_id = @organization_id
      AND w.owner_id = @owner_id
      AND (sqlc.narg(template)::text IS NULL
           OR w.template_id IN (SELECT t.id FROM templates t WHERE t.name = sqlc.narg(template)::text))
      AND (sqlc.narg(preset)::text IS NULL
           OR w.preset_id IN (SELECT p.id FROM presets p WHERE p.name = sqlc.narg(preset)::text))
      AND (sqlc.narg(words)::text[] IS NULL
           OR concat_ws(' ', w.name, w.provider, w.provider_id,
                        (SELECT jsonb_object_agg(p.id, t.name || '/' || p.name) FROM presets p JOIN templates t ON t.id = p.template_id) ->> w.preset_id::text,
                        (SELECT jsonb_object_agg(u.id, u.name) FROM users u) ->> w.owner_id::text) ILIKE ALL (sqlc.narg(words)::text[]))
      AND (sqlc.narg(after_at)::timestamptz IS NULL
           OR (w.created_at, w.id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
    ORDER BY w.created_at DESC, w.id DESC
    LIMIT @max_workspaces)
) page
ORDER BY page.created_at DESC, page.id DESC
LIMIT @max_workspaces;

-- name: WorkspaceViews :many
-- What a page shows, in its order.
SELECT w.id, w.name, o.name AS organization, t.name AS template, w.template_id, w.template_version_id, p.name AS preset, v.number AS version,
       w.provider, w.state, w.incarnation, u.name AS owner, w.owner_id, w.claim_id, w.provider_id, w.site, w.os_name, w.os_version, w.addresses,
       w.environment, w.parameters,
       -- Of a claimed one that inventories miss, what they say: the row's own says nothing of it.
       (CASE WHEN w.fault = '' AND w.state = 'claimed' THEN coalesce((
          SELECT 'missing: ' || f.detail FROM inventory_findings f
          WHERE f.provider = w.provider AND f.site = w.site AND f.subject = w.id::text AND f.verdict = 'claimed-missing'
            AND f.told_at IS NOT NULL), '') ELSE w.fault END)::text AS fault,
       w.created_at, w.state_at, w.ready_at, w.claimed_at, w.expires_at,
       w.deleted_at, c.lease_until, j.id AS job_id, j.kind AS job_kind, j.state AS job_state, j.attempt AS job_attempt,
       j.failures AS job_failures, j.due_at AS job_due_at, j.leased_by AS job_leased_by, j.last_error AS job_last_error
FROM workspaces w
JOIN organizations o ON o.id = w.organization_id
JOIN templates t ON t.id = w.template_id
JOIN presets p ON p.id = w.preset_id
JOIN template_versions v ON v.id = w.template_version_id
JOIN users u ON u.id = w.owner_id
LEFT JOIN jobs j ON j.workspace_id = w.id AND j.state IN ('pending', 'running')
LEFT JOIN claims c ON c.id = w.claim_id AND c.state = 'bound'
WHERE w.id = ANY (@ids::uuid[])
ORDER BY w.created_at DESC, w.id DESC;

-- name: WorkspaceView :one
-- By id or by name; a name is never a UUID.
SELECT w.id, w.name, o.name AS organization, t.name AS template, w.template_id, w.template_version_id, p.name AS preset, v.number AS version,
       w.provider, w.state, w.incarnation, u.name AS owner, w.owner_id, w.claim_id, w.provider_id, w.site, w.os_name, w.os_version, w.addresses,
       w.environment, w.parameters,
       -- Of a claimed one that inventories miss, what they say: the row's own says nothing of it.
       (CASE WHEN w.fault = '' AND w.state = 'claimed' THEN coalesce((
          SELECT 'missing: ' || f.detail FROM inventory_findings f
          WHERE f.provider = w.provider AND f.site = w.site AND f.subject = w.id::text AND f.verdict = 'claimed-missing'
            AND f.told_at IS NOT NULL), '') ELSE w.fault END)::text AS fault,
       w.created_at, w.state_at, w.ready_at, w.claimed_at, w.expires_at,
       w.deleted_at, c.lease_until, j.id AS job_id, j.kind AS job_kind, j.state AS job_state, j.attempt AS job_attempt,
       j.failures AS job_failures, j.due_at AS job_due_at, j.leased_by AS job_leased_by, j.last_error AS job_last_error
FROM workspaces w
JOIN organizations o ON o.id = w.organization_id
JOIN templates t ON t.id = w.template_id
JOIN presets p ON p.id = w.preset_id
JOIN template_versions v ON v.id = w.template_version_id
JOIN users u ON u.id = w.owner_id
LEFT JOIN jobs j ON j.workspace_id = w.id AND j.state IN ('pending', 'running')
LEFT JOIN claims c ON c.id = w.claim_id AND c.state = 'bound'
WHERE w.organization_id = @organization_id
  AND (w.id = sqlc.narg(id)::uuid OR w.name = sqlc.narg(name)::text);

-- name: HistoryViews :many
-- Every transition with the job that led to it and what that job met, and how long the state lasted that it led to; -1 of
-- the last one, which lasts still.
SELECT h.from_state, h.to_state, h.at, coalesce(u.name, '') AS actor, h.reason, h.incarnation, j.kind AS job_kind,
       coalesce(h.attempt, 0)::int AS attempt, coalesce(j.failures, 0)::int AS failures,
       coalesce(j.last_error, '') AS error,
       coalesce(extract(epoch FROM lead(h.at) OVER (ORDER BY h.id) - h.at), -1)::double precision AS lasted_s
FROM workspace_history h
LEFT JOIN users u ON u.id = h.actor_id
LEFT JOIN jobs j ON j.id = h.job_id
WHERE h.workspace_id = @workspace_id
ORDER BY h.id;

-- name: FailureLog :one
SELECT log FROM failure_logs WHERE workspace_id = @workspace_id;

-- name: ClaimReceipt :one
-- What is known of how long the stages of a claim took.
SELECT c.outcome, coalesce(extract(epoch FROM c.bound_at - c.created_at) * 1000, 0)::double precision AS wait_ms,
       coalesce(extract(epoch FROM a.claim_seen_at - c.bound_at) * 1000, 0)::double precision AS told_ms,
       coalesce(extract(epoch FROM a.claim_ready_at - a.claim_seen_at) * 1000, 0)::double precision AS hook_ms,
       (a.claim_seen_at IS NOT NULL)::boolean AS told, (a.claim_ready_at IS NOT NULL)::boolean AS ready
FROM claims c
LEFT JOIN agents a ON a.workspace_id = c.workspace_id AND a.incarnation = c.incarnation AND a.claim_id = c.id
WHERE c.id = @claim_id AND c.bound_at IS NOT NULL;
