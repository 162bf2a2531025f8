-- Inventories and machines, as people and alerts see them.

-- name: Inventories :many
-- How the inventories stand, of every provider that has had one.
SELECT i.provider, i.site, i.outcome, i.error, i.ended_at, i.complete_at, i.took_s, i.resources, i.workspaces,
       i.discrepancies, i.due_at, i.opened_at, i.reason, i.clean, i.by_calls, p.breaker_clean,
       (p.confirmed_at IS NOT NULL)::boolean AS confirmed
FROM inventories i JOIN providers p ON p.name = i.provider AND p.emptied_at IS NULL
ORDER BY i.provider, i.site;

-- name: MachineViews :many
-- What people are shown of a provider's machines, those that this installation's workspaces have with their names.
SELECT m.machine, m.address, m.state, m.error, m.holder, m.seen_at, m.reserved_at, m.workspace_id, m.failures, m.retry_at,
       coalesce(w.name, '') AS workspace, coalesce(w.state::text, '')::text AS workspace_state,
       coalesce(w.incarnation, 0)::int AS incarnation
FROM provider_machines m
LEFT JOIN workspaces w ON w.id = m.workspace_id
WHERE m.provider = @provider
ORDER BY m.machine;
