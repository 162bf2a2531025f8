-- Configuration: providers, templates, versions and presets, written by applies. Locks are taken in one order
-- everywhere (organization, providers by name, templates by name), and are NO KEY UPDATE: the foreign keys of a pass
-- that runs meanwhile do not wait for them.

-- name: LockProviders :many
SELECT * FROM providers WHERE name = ANY (@names::text[]) ORDER BY name FOR NO KEY UPDATE;

-- name: UpsertProvider :exec
-- One whose kind is trusted is confirmed from the start; what was confirmed stays so. Whether its machines exist beforehand
-- is known from now on, so that no pass creates before they were listed.
INSERT INTO providers (name, kind, config, maximum, creates_in_flight, chunk, create_every_s, create_burst,
                       inventory_every_s, breaker_count, breaker_percent, breaker_errors, breaker_clean, confirmed_at,
                       reserves, enter_allowed_at, public_ports_allowed_at, updated_at)
VALUES (@name, @kind, @config, @maximum, @creates_in_flight, @chunk, sqlc.narg(create_every_s), @create_burst,
        @inventory_every_s, @breaker_count, @breaker_percent, @breaker_errors, @breaker_clean,
        CASE WHEN @is_confirmed::boolean THEN prewarm_now() END, @reserves, CASE WHEN @enter::boolean THEN prewarm_now() END,
        CASE WHEN @public_ports::boolean THEN prewarm_now() END, prewarm_now())
ON CONFLICT (name) DO UPDATE
  SET deleted_at = NULL, delete_forced = false, emptied_at = NULL, -- of one that is empty nothing is known any more
      confirmed_at = CASE WHEN providers.emptied_at IS NULL THEN providers.confirmed_at ELSE excluded.confirmed_at END,
      machines_begun_at = CASE WHEN providers.config = excluded.config THEN providers.machines_begun_at END,
      config = excluded.config, maximum = excluded.maximum, creates_in_flight = excluded.creates_in_flight,
      chunk = excluded.chunk, create_every_s = excluded.create_every_s, create_burst = excluded.create_burst,
      inventory_every_s = excluded.inventory_every_s, breaker_count = excluded.breaker_count,
      breaker_percent = excluded.breaker_percent, breaker_errors = excluded.breaker_errors,
      breaker_clean = excluded.breaker_clean, reserves = excluded.reserves,
      -- What was allowed stays so from when it was; what is not any more begins anew.
      enter_allowed_at = CASE WHEN @enter THEN coalesce(providers.enter_allowed_at, excluded.enter_allowed_at) END,
      public_ports_allowed_at = CASE WHEN @public_ports THEN coalesce(providers.public_ports_allowed_at, excluded.public_ports_allowed_at) END,
      updated_at = excluded.updated_at;

-- name: ProviderAllows :one
-- What an owner allows the templates of a provider.
SELECT (enter_allowed_at IS NOT NULL)::boolean AS enter, (public_ports_allowed_at IS NOT NULL)::boolean AS public_ports
FROM providers WHERE name = @name;

-- name: DeleteProvider :exec
UPDATE providers
SET deleted_at = coalesce(deleted_at, prewarm_now()), delete_forced = delete_forced OR @is_forced, updated_at = prewarm_now()
WHERE name = @name;

-- name: TemplatesUsing :many
-- The templates that need a provider, of all organizations: for their active version, which is on it, or for the next.
SELECT t.id, t.organization_id, t.name, coalesce(v.number, 0)::int AS version
FROM templates t LEFT JOIN template_versions v ON v.id = t.active_version_id
WHERE t.deleted_at IS NULL AND (t.provider = @provider OR v.provider = @provider)
ORDER BY t.name, t.id;

-- name: LeftAtProvider :many
-- The workspaces at a provider, of all organizations, by version and state. Two halves, for an index each.
SELECT t.id, t.organization_id, t.name AS template, v.number AS version, w.state::text AS state, w.n::int AS workspaces
FROM (
  SELECT c.template_version_id, c.state, count(*) AS n FROM workspaces c
  WHERE c.provider = @provider AND c.state = 'claimed' GROUP BY c.template_version_id, c.state
  UNION ALL
  SELECT u.template_version_id, u.state, count(*) FROM workspaces u
  WHERE u.provider = @provider AND u.state NOT IN ('claimed', 'deleted') GROUP BY u.template_version_id, u.state
) w
JOIN template_versions v ON v.id = w.template_version_id
JOIN templates t ON t.id = v.template_id
ORDER BY t.name, t.id, v.number, w.state;

-- name: ResourcesAtProvider :many
-- What is left at a provider as far as it is known: the resources of its workspaces, and those that inventories found amiss.
SELECT * FROM (
  SELECT w.name, coalesce(w.provider_id, '')::text AS provider_id, w.site, w.state::text AS state FROM workspaces w
  WHERE w.provider = @provider AND w.state = 'claimed'
  UNION ALL
  SELECT w.name, coalesce(w.provider_id, '')::text, w.site, w.state::text FROM workspaces w
  WHERE w.provider = @provider AND w.state NOT IN ('claimed', 'deleted')
  UNION ALL
  SELECT f.resource, f.provider_id, f.site, f.verdict FROM inventory_findings f
  WHERE f.provider = @provider AND f.resource <> ''
    AND NOT EXISTS (SELECT FROM workspaces w WHERE w.id = f.workspace_id AND w.state <> 'deleted')
) left_there
ORDER BY name LIMIT @most;

-- name: LockTemplates :many
SELECT * FROM templates
WHERE organization_id = @organization_id AND deleted_at IS NULL AND name = ANY (@names::text[])
ORDER BY name FOR NO KEY UPDATE;

-- name: TemplateNamed :one
-- To read it, beside whoever changes it.
SELECT * FROM templates WHERE organization_id = @organization_id AND deleted_at IS NULL AND name = @name;

-- name: InsertTemplate :one
-- With the settings that the schema gives it; UpdateTemplate writes those of the file.
INSERT INTO templates (id, organization_id, name, provider, created_at, updated_at)
VALUES (@id, @organization_id, @name, @provider, prewarm_now(), prewarm_now())
RETURNING *;

-- name: UpdateTemplate :exec
UPDATE templates
SET description = @description, provider = @provider, keep_outdated = @keep_outdated,
    boot_timeout_s = @boot_timeout_s, keep_failures = @keep_failures, keep_failures_s = @keep_failures_s,
    max_uses = @max_uses, max_surge = @max_surge, max_unavailable = @max_unavailable,
    progress_deadline_s = @progress_deadline_s, creates_in_flight = sqlc.narg(creates_in_flight),
    idle_cost_per_hour = @idle_cost_per_hour, stopped_cost_per_hour = sqlc.narg(stopped_cost_per_hour),
    claim_lease_s = sqlc.narg(claim_lease_s),
    max_claimed = sqlc.narg(max_claimed), max_claimed_per_user = sqlc.narg(max_claimed_per_user),
    previous_version_id = CASE WHEN active_version_id = @active_version_id THEN previous_version_id
                               ELSE active_version_id END,
    active_version_id = @active_version_id, updated_at = prewarm_now()
WHERE id = @id;

-- name: ActivateVersion :exec
-- A version of this template that there is already, on its provider.
UPDATE templates t
SET previous_version_id = t.active_version_id, active_version_id = v.id, provider = v.provider, updated_at = prewarm_now()
FROM template_versions v
WHERE t.id = @id AND v.id = @version_id AND v.template_id = t.id;

-- name: VersionByNumber :one
SELECT * FROM template_versions WHERE template_id = @template_id AND number = @number;

-- name: SetPoolKey :exec
UPDATE presets SET pool_key = @pool_key, generation = @generation, updated_at = prewarm_now() WHERE id = @id;

-- name: DeprecateTemplate :exec
UPDATE templates SET deprecated_at = prewarm_now(), updated_at = prewarm_now() WHERE id = @id;

-- name: UndeprecateTemplate :exec
UPDATE templates SET deprecated_at = NULL, updated_at = prewarm_now() WHERE id = @id;

-- name: DeleteTemplate :exec
UPDATE templates SET deleted_at = prewarm_now(), updated_at = prewarm_now() WHERE id = @id;

-- name: DeletePresetsOf :exec
UPDATE presets SET deleted_at = prewarm_now(), updated_at = prewarm_now()
WHERE template_id = @template_id AND deleted_at IS NULL;

-- name: VersionByHash :one
SELECT * FROM template_versions WHERE template_id = @template_id AND hash = @hash;

-- name: VersionByID :one
SELECT * FROM template_versions WHERE id = @id;

-- name: InsertVersion :one
-- The next number; safe, since the caller holds the template's lock.
INSERT INTO template_versions (id, template_id, number, hash, provider, spec, agent, defaults, created_at, created_by)
SELECT @id, @template_id, coalesce(max(v.number), 0) + 1, @hash, @provider, @spec, sqlc.narg(agent), @defaults, prewarm_now(),
       @created_by
FROM template_versions v WHERE v.template_id = @template_id
RETURNING *;

-- name: PresetsOf :many
SELECT * FROM presets WHERE template_id = @template_id AND deleted_at IS NULL ORDER BY name;

-- name: InsertPreset :exec
-- With the settings that the schema gives it; UpdatePreset writes those of the file.
INSERT INTO presets (id, organization_id, template_id, name, pool_key, created_at, updated_at)
VALUES (@id, @organization_id, @template_id, @name, @pool_key, prewarm_now(), prewarm_now());

-- name: UpdatePreset :exec
UPDATE presets
SET parameters = @parameters, pool_key = @pool_key, instances = @instances, ttl_s = @ttl_s,
    ttl_jitter = @ttl_jitter, min_remaining_s = @min_remaining_s, schedule = sqlc.narg(schedule), priority = @priority,
    creates_in_flight = sqlc.narg(creates_in_flight), autosize = sqlc.narg(autosize), all_machines = @all_machines,
    standby_running = sqlc.narg(standby_running), forge_entity_id = sqlc.narg(forge_entity_id),
    runner_labels = @runner_labels, runner_group = @runner_group, runner_maximum = sqlc.narg(runner_maximum),
    runner_registration_timeout_s = @runner_registration_timeout_s,
    updated_at = prewarm_now()
WHERE id = @id;

-- name: ForgesOf :many
-- What presets of runners may name, and for the record what they named before it was deleted.
SELECT e.id, e.name, e.scope, c.kind, (e.deleted_at IS NOT NULL)::boolean AS deleted
FROM forge_entities e JOIN forge_credentials c ON c.id = e.credential_id
WHERE e.organization_id = @organization_id
ORDER BY e.name, e.deleted_at NULLS LAST, e.id;

-- name: LockForges :many
-- Those that a file names, so that none is deleted while its presets are written.
SELECT e.id, e.name FROM forge_entities e
WHERE e.organization_id = @organization_id AND e.deleted_at IS NULL AND e.name = ANY (@names::text[])
ORDER BY e.name FOR SHARE;

-- name: EndWaitingOf :exec
-- For a preset that becomes one of runners: nobody is given those by waiting.
UPDATE claims SET state = 'missed', outcome = 'miss', reason = @reason, idempotency_key = NULL
WHERE preset_id = @preset_id AND state = 'waiting';

-- name: DeletePreset :exec
UPDATE presets SET deleted_at = prewarm_now(), updated_at = prewarm_now() WHERE id = @id;

-- name: UnclaimedOf :many
-- How many prebuilds each preset of a template has, those on their way out left out: to tell what a change means.
SELECT w.preset_id, w.template_version_id, count(*)::int AS workspaces
FROM workspaces w
WHERE w.template_id = @template_id AND w.state NOT IN ('claimed', 'deleted') AND w.state NOT IN ('draining', 'deleting')
GROUP BY w.preset_id, w.template_version_id;
