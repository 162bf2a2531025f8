-- Machines that exist beforehand: what listings say of them, and their reservation. None of this runs in a pass or a claim
-- but the count of those that are available, which is in reconcile.sql.

-- name: BeginMachines :one
-- Takes the next listing of a provider's machines upon this replica, where one is due. No row: another has it, or it is not
-- due yet. It is also where a provider becomes one that reserves.
UPDATE providers
SET reserves = true, machines_begun_at = prewarm_now()
WHERE name = @name AND (machines_begun_at IS NULL OR machines_begun_at
        <= prewarm_now() - sqlc.arg(every_s)::double precision * interval '1 second')
RETURNING machines_begun_at;

-- name: MachinesDue :exec
-- The next listing need not wait for its time.
UPDATE providers SET machines_begun_at = NULL WHERE name = @name;

-- name: StoreMachines :execrows
-- What a listing found. A machine that was reserved or given back since the listing began is known better already. Counts
-- the machines of which something is another than before.
INSERT INTO provider_machines AS m (provider, machine, address, state, error, holder, seen_at, changed_at)
SELECT @provider, l.machine, l.address, l.state, l.error, l.holder, CASE WHEN l.seen THEN prewarm_now() END, @begun_at
FROM (SELECT unnest(@machines::text[]) AS machine, unnest(@addresses::text[]) AS address, unnest(@states::text[]) AS state,
             unnest(@errors::text[]) AS error, unnest(@holders::text[]) AS holder, unnest(@seen::boolean[]) AS seen) l
ON CONFLICT (provider, machine) DO UPDATE
  SET address = excluded.address, state = excluded.state, error = excluded.error, holder = excluded.holder,
      seen_at = coalesce(excluded.seen_at, m.seen_at)
  WHERE m.changed_at <= @begun_at;

-- name: ForgetMachines :exec
-- Machines that the provider does not have any more: one that is reserved stays until its workspace is deleted.
WITH unlisted AS (
  SELECT m.machine, m.workspace_id FROM provider_machines m
  WHERE m.provider = @provider AND m.changed_at <= @begun_at AND m.machine <> ALL (@machines::text[])
  FOR UPDATE
), gone AS (
  DELETE FROM provider_machines m USING unlisted u
  WHERE m.provider = @provider AND m.machine = u.machine AND u.workspace_id IS NULL
)
UPDATE provider_machines m
SET state = 'possibly_used', error = 'machine ' || m.machine || ' is not in the configuration any more'
FROM unlisted u
WHERE m.provider = @provider AND m.machine = u.machine AND u.workspace_id IS NOT NULL;

-- name: EndMachines :exec
-- The listing came to its end, so that what is available can be counted by it.
UPDATE providers SET machines_listed_at = greatest(machines_listed_at, @begun_at::timestamptz) WHERE name = @name;

-- name: FreeMachinesOfDeleted :execrows
-- Reservations of workspaces that are deleted, such as by a replica that was killed before it gave the machine back. Nobody
-- has proven that the machine was reset: the next listing says.
UPDATE provider_machines m
SET workspace_id = NULL, reserved_at = NULL, changed_at = prewarm_now(), state = 'possibly_used',
    error = 'machine ' || m.machine || ' was not seen since its workspace was deleted'
WHERE m.provider = @provider AND m.workspace_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM workspaces w WHERE w.id = m.workspace_id AND w.state <> 'deleted');

-- name: ReserveMachine :one
-- The unused machine with the lowest id, for the attempt that holds the workspace's job; the one that the workspace has, if
-- it has one. Others that reserve at the same time get others (S5). No row: none is available.
WITH held AS (
  SELECT j.workspace_id FROM jobs j WHERE j.id = @job_id AND j.attempt = @attempt AND j.state = 'running'
), mine AS (
  SELECT m.machine FROM provider_machines m, held WHERE m.provider = @provider AND m.workspace_id = held.workspace_id
), free AS (
  SELECT m.machine, held.workspace_id FROM provider_machines m, held
  WHERE m.provider = @provider AND m.workspace_id IS NULL AND m.state = 'unused'
    AND (m.retry_at IS NULL OR m.retry_at <= prewarm_now()) AND NOT EXISTS (SELECT FROM mine)
  ORDER BY m.machine
  LIMIT 1
  FOR UPDATE OF m SKIP LOCKED
), reserved AS (
  UPDATE provider_machines m
  SET workspace_id = free.workspace_id, reserved_at = prewarm_now(), changed_at = prewarm_now()
  FROM free
  WHERE m.provider = @provider AND m.machine = free.machine
  RETURNING m.machine
)
SELECT machine FROM mine UNION ALL SELECT machine FROM reserved;

-- name: GiveBackMachine :execrows
-- The machine of a workspace, by the attempt that holds its job. With proof of its reset it is unused at once; without, the
-- next listing says what it is. One on which a workspace failed is not the first to be tried again: 30 s later after the
-- first, doubling to an hour.
UPDATE provider_machines m
SET workspace_id = NULL, reserved_at = NULL, changed_at = prewarm_now(),
    state = CASE WHEN @proven::boolean THEN 'unused' ELSE 'possibly_used' END, holder = '', error = @error,
    failures = CASE WHEN @failed::boolean THEN m.failures + 1 ELSE 0 END,
    retry_at = CASE WHEN @failed::boolean
      THEN prewarm_now() + least(interval '30 seconds' * power(2, least(m.failures, 10)), interval '1 hour') END
FROM jobs j
WHERE j.id = @job_id AND j.attempt = @attempt AND j.state = 'running' AND m.provider = @provider
  AND m.workspace_id = j.workspace_id;

-- name: MachineViews :many
-- What people are shown of a provider's machines, those that this installation's workspaces have with their names.
SELECT m.machine, m.address, m.state, m.error, m.holder, m.seen_at, m.reserved_at, m.workspace_id, m.failures, m.retry_at,
       coalesce(w.name, '') AS workspace, coalesce(w.state::text, '')::text AS workspace_state,
       coalesce(w.incarnation, 0)::int AS incarnation
FROM provider_machines m
LEFT JOIN workspaces w ON w.id = m.workspace_id
WHERE m.provider = @provider
ORDER BY m.machine;

-- name: TemplatesOn :many
-- Whose pools a change at a provider may be about.
SELECT id FROM templates WHERE provider = @provider AND deleted_at IS NULL ORDER BY id;
