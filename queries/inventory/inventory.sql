-- Inventories (coderd/inventory): who makes one, what it found, and the breakers. Transitions that follow from findings
-- are in queries/workspaces/quarantine.sql.

-- name: LeaseInventory :many
-- Takes the inventory of one provider and site, if it is due (or at_once) and nobody is at it. began_at is the time from
-- which on the answer of the provider counts. A burst of three inventories may be made faster than one each every_s.
INSERT INTO inventories AS i (provider, site, attempt, leased_by, leased_until, due_at, full_at)
SELECT p.name, @site, 1, @replica, prewarm_now() + sqlc.arg(lease_s)::double precision * interval '1 second', prewarm_now(),
       prewarm_now() + p.inventory_every_s * interval '1 second'
FROM providers p WHERE p.name = @provider AND p.emptied_at IS NULL
ON CONFLICT (provider, site) DO UPDATE
  SET attempt = i.attempt + 1, leased_by = excluded.leased_by, leased_until = excluded.leased_until, due_at = excluded.due_at,
      full_at = greatest(i.full_at, prewarm_now()) + (excluded.full_at - excluded.due_at)
  WHERE i.leased_until <= prewarm_now() AND (i.due_at <= prewarm_now() OR @at_once::boolean)
RETURNING i.attempt, prewarm_now()::timestamptz AS began_at;

-- name: InventoryDue :one
-- Whether somebody should try to take it.
SELECT (NOT EXISTS (
  SELECT FROM inventories i
  WHERE i.provider = @provider AND i.site = @site AND (i.leased_until > prewarm_now() OR i.due_at > prewarm_now())))::boolean AS due;

-- name: InventorySettings :one
SELECT p.kind, p.inventory_every_s, p.breaker_count, p.breaker_percent, p.breaker_errors, p.breaker_clean,
       (p.confirmed_at IS NOT NULL)::boolean AS confirmed
FROM providers p WHERE p.name = @provider;

-- name: InventoryRows :many
-- The database's side: what lives at the provider and site or is not yet bound to one, and whatever there is of the
-- workspaces whose resources were found, also the deleted.
SELECT w.id, w.name, w.provider, w.site, w.state, w.incarnation, w.provider_id, w.state_at, w.deleted_at, w.template_id,
       w.organization_id, w.gone_at,
       (w.id IN (SELECT j.workspace_id FROM jobs j
                 WHERE j.state IN ('pending', 'running') AND j.kind IN ('create', 'reset')))::boolean AS making,
       (w.id IN (SELECT j.workspace_id FROM jobs j
                 WHERE j.state = 'pending' AND j.kind = 'delete' AND j.failures > 0))::boolean AS stuck,
       -- How many resources have drifted, unless a job has changed it since. Jobs are read for those few only.
       (CASE WHEN cardinality(d.resources) > 0
              AND NOT EXISTS (SELECT FROM jobs j WHERE j.workspace_id = d.workspace_id AND j.finished_at > d.looked_at)
             THEN cardinality(d.resources) ELSE 0 END)::int AS drifted
FROM workspaces w
LEFT JOIN workspace_drift d ON d.workspace_id = w.id AND d.incarnation = w.incarnation
WHERE w.id IN (
  SELECT c.id FROM workspaces c
  WHERE c.provider = @provider AND c.state = 'claimed' AND (c.site = @site::text OR c.site = '')
  UNION
  SELECT u.id FROM workspaces u
  WHERE u.provider = @provider AND u.state NOT IN ('claimed', 'deleted') AND (u.site = @site::text OR u.site = '')
  UNION
  SELECT unnest(@ids::uuid[]))
ORDER BY w.id;

-- name: LockInventory :one
-- No row: the lease is another's by now, and whoever held it has nothing more to say.
SELECT reason, clean, by_calls FROM inventories
WHERE provider = @provider AND site = @site AND attempt = @attempt AND leased_until > prewarm_now()
FOR NO KEY UPDATE;

-- name: ExtendInventories :many
-- The heartbeat of the inventories that a replica makes: which it still has, and of these which were extended. It passes
-- over a row that somebody has locked, as ExtendLeases of jobs does: a later heartbeat extends it, or it runs out.
WITH held AS (
  SELECT i.provider, i.site
  FROM inventories i
  JOIN (SELECT unnest(@providers::text[]) AS provider, unnest(@sites::text[]) AS site,
               unnest(@attempts::bigint[]) AS attempt) h
    ON i.provider = h.provider AND i.site = h.site AND i.attempt = h.attempt
  WHERE i.leased_until > prewarm_now()
), free AS (
  SELECT i.provider, i.site
  FROM inventories i
  JOIN (SELECT unnest(@providers::text[]) AS provider, unnest(@sites::text[]) AS site,
               unnest(@attempts::bigint[]) AS attempt) h
    ON i.provider = h.provider AND i.site = h.site AND i.attempt = h.attempt
  WHERE i.leased_until > prewarm_now()
  FOR NO KEY UPDATE OF i SKIP LOCKED
), extended AS (
  UPDATE inventories i
  SET leased_until = prewarm_now() + sqlc.arg(lease_s)::double precision * interval '1 second'
  FROM free
  WHERE i.provider = free.provider AND i.site = free.site
  RETURNING i.provider, i.site
)
SELECT held.provider, held.site, (extended.provider IS NOT NULL)::boolean AS extended
FROM held LEFT JOIN extended ON extended.provider = held.provider AND extended.site = held.site;

-- name: SaveFindings :many
-- Replaces what the inventory before found, and says of each since when and how often in a row it was found. NOT IN of
-- nothing that is null: its answer is hashed, where NOT EXISTS would compare each with each.
WITH found AS (
  SELECT unnest(@subjects::text[]) AS subject, unnest(@verdicts::text[]) AS verdict,
         unnest(@workspace_ids::uuid[]) AS workspace_id, unnest(@resources::text[]) AS resource,
         unnest(@provider_ids::text[]) AS provider_id, unnest(@details::text[]) AS detail
), over AS (
  DELETE FROM inventory_findings f
  WHERE f.provider = @provider AND f.site = @site
    AND (f.subject, f.verdict) NOT IN (SELECT found.subject, found.verdict FROM found)
)
INSERT INTO inventory_findings AS f (provider, site, subject, verdict, workspace_id, resource, provider_id, detail, first_at)
SELECT @provider, @site, found.subject, found.verdict, found.workspace_id, found.resource, found.provider_id, found.detail,
       @began_at
FROM found
ON CONFLICT (provider, site, subject, verdict) DO UPDATE
  SET seen = f.seen + 1, resource = excluded.resource, provider_id = excluded.provider_id,
      -- What people were told stays: when a pod is gone nobody can read any more why it went.
      detail = CASE WHEN f.told_at IS NULL THEN excluded.detail ELSE f.detail END
RETURNING f.subject, f.verdict, f.seen, f.first_at, (f.told_at IS NOT NULL)::boolean AS told;

-- name: LatestCalls :many
-- How often the provider was called and failed, as the replicas have written it down, the newest first: lately, but not before
-- the breaker last changed.
SELECT c.calls, c.errors
FROM inventories i
JOIN provider_calls c ON c.provider = i.provider AND c.site = i.site
WHERE i.provider = @provider AND i.site = @site AND c.minute > prewarm_now() - interval '5 minutes'
  AND c.minute > coalesce(i.changed_at, '-infinity')
ORDER BY c.minute DESC LIMIT 50;

-- name: BreakersByCalls :many
-- The breakers that failing calls have opened, each with a workspace to ask the provider for: the youngest, if there is one.
SELECT i.provider, i.site, coalesce(w.id, '00000000-0000-0000-0000-000000000000')::uuid AS id, coalesce(w.name, '') AS name, coalesce(w.provider_id, '') AS provider_id
FROM inventories i
LEFT JOIN LATERAL (
  SELECT w.id, w.name, w.provider_id FROM workspaces w
  WHERE w.provider = i.provider AND w.state NOT IN ('claimed', 'deleted') AND (w.site = i.site OR w.site = '')
  ORDER BY w.created_at DESC LIMIT 1
) w ON true
WHERE i.opened_at IS NOT NULL AND i.by_calls;

-- name: BreakerOf :one
SELECT reason, clean, by_calls FROM inventories WHERE provider = @provider AND site = @site;

-- name: LockBreaker :one
-- Whoever judges calls, or ends an inventory, does it one after the other. No row: there was no inventory yet.
SELECT reason, clean, by_calls FROM inventories
WHERE provider = @provider AND site = @site
FOR NO KEY UPDATE;

-- name: StoreBreaker :exec
-- A breaker that calls have opened or closed. What was called before says nothing about what comes.
UPDATE inventories
SET changed_at = prewarm_now(), opened_at = CASE WHEN @is_open::boolean THEN prewarm_now() END, reason = @reason, clean = 0,
    by_calls = @by_calls
WHERE provider = @provider AND site = @site;

-- name: StoreInventory :exec
-- How a complete one ended, and what became of the breaker.
UPDATE inventories
SET outcome = 'complete', error = '', ended_at = prewarm_now(), complete_at = @began_at,
    took_s = extract(epoch FROM prewarm_now() - @began_at), resources = @resources, workspaces = @workspaces,
    discrepancies = @discrepancies, empty_at = CASE WHEN @is_empty::boolean THEN @began_at END,
    changed_at = CASE WHEN (opened_at IS NULL) = @is_open::boolean THEN prewarm_now() ELSE changed_at END,
    opened_at = CASE WHEN @is_open::boolean THEN coalesce(opened_at, prewarm_now()) END,
    reason = @reason, clean = @clean, by_calls = @by_calls
WHERE provider = @provider AND site = @site;

-- name: StoreIncomplete :exec
-- How one ended that the provider gave no complete answer to. What was found before stays; calls that failed until now
-- are accounted for, and do not keep the breaker open when the provider is back.
UPDATE inventories
SET outcome = 'incomplete', error = @error, ended_at = prewarm_now(), took_s = extract(epoch FROM prewarm_now() - @began_at::timestamptz),
    changed_at = CASE WHEN @is_open::boolean OR opened_at IS NOT NULL THEN prewarm_now() ELSE changed_at END,
    opened_at = CASE WHEN @is_open::boolean THEN coalesce(opened_at, prewarm_now()) END,
    reason = @reason, clean = @clean, by_calls = @by_calls
WHERE provider = @provider AND site = @site;

-- name: ReleaseInventory :one
-- The next one is due every_s after this one; or soon, where another look is wanted and the rate allows it: not later in
-- any case, also where full_at is far ahead since they were rarer before. It is due at once if LookSoon asked for it meanwhile:
-- this one may have looked before there was anything to see.
UPDATE inventories i
SET leased_by = '', leased_until = prewarm_now(),
    due_at = CASE WHEN i.due_at > @began_at THEN i.due_at
      WHEN @soon::boolean
      THEN least(prewarm_now() + p.inventory_every_s * interval '1 second',
                 greatest(prewarm_now() + sqlc.arg(soon_s)::double precision * interval '1 second',
                          i.full_at - 2 * p.inventory_every_s * interval '1 second'))
      ELSE prewarm_now() + p.inventory_every_s * interval '1 second' END
FROM providers p
WHERE i.provider = @provider AND i.site = @site AND i.attempt = @attempt AND p.name = i.provider
RETURNING (i.due_at <= prewarm_now())::boolean AS asked;

-- name: FindingTold :exec
UPDATE inventory_findings SET told_at = prewarm_now()
WHERE provider = @provider AND site = @site AND subject = @subject AND verdict = @verdict;

-- name: RecordProviderAct :exec
-- Audit of what an inventory did at a provider, or a person with one; the event stream tells it on.
INSERT INTO audit_log (at, actor_id, action, target_type, target_id, target_name, before, after, reason, source)
VALUES (prewarm_now(), @actor_id, @action, 'provider', @provider::text, @provider::text, sqlc.narg(before), sqlc.narg(after),
        @reason, @source);

-- name: AddProviderCalls :exec
-- Written by every replica every few seconds in which it called any; what is too old for any breaker goes.
WITH old AS (
  DELETE FROM provider_calls c
  USING (SELECT o.provider, o.site, o.minute FROM provider_calls o
         WHERE o.minute < prewarm_now() - interval '10 minutes' FOR UPDATE SKIP LOCKED) gone
  WHERE c.provider = gone.provider AND c.site = gone.site AND c.minute = gone.minute
)
INSERT INTO provider_calls AS c (provider, site, minute, calls, errors)
SELECT unnest(@providers::text[]), unnest(@sites::text[]), prewarm_now(), unnest(@calls::integer[]),
       unnest(@errors::integer[])
ON CONFLICT (provider, site, minute) DO UPDATE SET calls = c.calls + excluded.calls, errors = c.errors + excluded.errors;

-- name: WorkOn :exec
-- A replica is at work on this database. A gap of a minute begins another time: that is less than it takes to put a
-- backup back.
WITH now_at AS (
  UPDATE times_at_work t SET seen_at = greatest(t.seen_at, prewarm_now())
  WHERE t.began_at = (SELECT max(o.began_at) FROM times_at_work o) AND t.seen_at > prewarm_now() - interval '1 minute'
  RETURNING t.began_at
)
INSERT INTO times_at_work (began_at, seen_at)
SELECT prewarm_now(), prewarm_now() WHERE NOT EXISTS (SELECT FROM now_at)
ON CONFLICT DO NOTHING;

-- name: TimesAtWork :many
SELECT began_at, seen_at FROM times_at_work ORDER BY began_at;

-- name: FindingsOf :many
SELECT subject, verdict, first_at, seen FROM inventory_findings WHERE provider = @provider AND site = @site;

-- name: CloseBreakers :many
-- A person's word that the provider can be trusted. What was seen before is forgotten, so that nothing of it is held
-- against the provider again.
UPDATE inventories i
SET opened_at = NULL, reason = '', clean = 0, by_calls = false, changed_at = prewarm_now()
FROM (SELECT o.provider, o.site, o.reason FROM inventories o
      WHERE o.provider = @provider AND o.opened_at IS NOT NULL FOR NO KEY UPDATE) old
WHERE i.provider = old.provider AND i.site = old.site
RETURNING i.site, old.reason;

-- name: ConfirmProvider :execrows
UPDATE providers SET confirmed_at = prewarm_now(), updated_at = prewarm_now() WHERE name = @name AND confirmed_at IS NULL;

-- name: LookSoon :exec
-- A deletion waits for the inventory that finds nothing. Where one is under way, due_at is when it began, and the next comes
-- right after it: greatest, as this statement may have begun before that and waited for the lease.
UPDATE inventories i
SET due_at = CASE WHEN i.leased_until > prewarm_now() THEN greatest(prewarm_now(), i.due_at + interval '1 microsecond')
                  ELSE prewarm_now() END
WHERE i.provider = @provider;

-- name: RetireProviders :many
-- Ends what is known of providers that are deleted and have nothing left: neither a workspace nor work, nor by an inventory of
-- each of its sites, made since, a resource. One that was deleted by force may not answer any more: its inventories get grace_s
-- to find and sweep what is left. The locks are those of an apply, which may take the deletion back. What a replica of the
-- release before goes on to note of retired ones goes too.
WITH empty AS (
  SELECT p.name FROM providers p
  WHERE p.deleted_at IS NOT NULL AND p.emptied_at IS NULL
    AND NOT EXISTS (SELECT FROM workspaces w WHERE w.provider = p.name AND w.state = 'claimed')
    AND NOT EXISTS (SELECT FROM workspaces w WHERE w.provider = p.name AND w.state NOT IN ('claimed', 'deleted'))
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.provider = p.name AND j.state IN ('pending', 'running'))
    AND (p.delete_forced AND p.deleted_at <= prewarm_now() - sqlc.arg(grace_s)::double precision * interval '1 second'
      OR EXISTS (SELECT FROM inventories i WHERE i.provider = p.name)
        AND NOT EXISTS (
          SELECT FROM inventories i
          WHERE i.provider = p.name
            AND (i.outcome = 'complete' AND i.empty_at = i.complete_at AND i.complete_at > p.deleted_at) IS NOT TRUE))
  ORDER BY p.name FOR NO KEY UPDATE OF p SKIP LOCKED
), retired AS (
  UPDATE providers p SET emptied_at = prewarm_now(), updated_at = prewarm_now() FROM empty WHERE p.name = empty.name
  RETURNING p.name, p.delete_forced
), over AS (
  SELECT r.name FROM retired r UNION ALL SELECT p.name FROM providers p WHERE p.emptied_at IS NOT NULL
), findings AS (
  DELETE FROM inventory_findings f USING over o WHERE f.provider = o.name
), listed AS (
  DELETE FROM inventories i USING over o WHERE i.provider = o.name
), calls AS (
  DELETE FROM provider_calls c USING over o WHERE c.provider = o.name
), machines AS (
  DELETE FROM provider_machines m USING over o WHERE m.provider = o.name
)
SELECT r.name, r.delete_forced AS forced,
       coalesce((SELECT jsonb_agg(jsonb_build_object('name', f.resource, 'provider_id', f.provider_id, 'site', f.site) ORDER BY f.resource)
                 FROM (SELECT * FROM inventory_findings x WHERE x.provider = r.name AND x.resource <> '' LIMIT @most) f),
                '[]')::jsonb AS resources
FROM retired r ORDER BY r.name;
