-- Machines that exist beforehand: what listings say of them. Their reservation is in queries/lifecycle; a pass only counts
-- those that are available.

-- name: BeginMachines :one
-- Takes the next listing of a provider's machines upon this replica, where one is due. No row: another has it, or it is not
-- due yet. It is also where a provider becomes one that reserves.
UPDATE providers
SET reserves = true, machines_begun_at = prewarm_now()
WHERE name = @name AND emptied_at IS NULL AND (machines_begun_at IS NULL OR machines_begun_at
        <= prewarm_now() - sqlc.arg(every_s)::double precision * interval '1 second')
RETURNING machines_begun_at;

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

-- name: TemplatesOn :many
-- Whose pools a change at a provider may be about.
SELECT id FROM templates WHERE provider = @provider AND deleted_at IS NULL ORDER BY id;
