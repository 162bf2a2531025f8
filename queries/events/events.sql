-- What has changed lately, for the event stream (coderd/events). Ids of the two logs are given before the commit, so a row
-- with a smaller id may come after one with a greater: `gaps` are the ids that were not there yet. Nothing here locks.

-- name: HistorySince :many
-- Transitions with what they concern, at most max_rows of them beside those in gaps. The workspaces are asked for by an
-- array: joined to the rows themselves, whose number the planner does not know, all would be read.
WITH found AS MATERIALIZED (
  (SELECT n.id, n.workspace_id FROM workspace_history n WHERE n.id > @after::bigint ORDER BY n.id LIMIT @max_rows)
  UNION ALL
  (SELECT g.id, g.workspace_id FROM workspace_history g WHERE g.id = ANY (@gaps::bigint[]))
)
SELECT found.id, found.workspace_id, w.organization_id, w.template_id, w.preset_id, w.owner_id, w.claim_id
FROM found
LEFT JOIN workspaces w ON w.id = found.workspace_id AND w.id = ANY (ARRAY(SELECT f.workspace_id FROM found f))
ORDER BY found.id;

-- name: AuditSince :many
-- Entries of the audit log, in the same way.
SELECT e.id, e.actor_id, e.organization_id, e.target_type, e.target_id
FROM (
  (SELECT n.* FROM audit_log n WHERE n.id > @after::bigint ORDER BY n.id LIMIT @max_rows)
  UNION ALL
  (SELECT g.* FROM audit_log g WHERE g.id = ANY (@gaps::bigint[]))
) e
ORDER BY e.id;

-- name: StatusSince :many
-- Presets whose status a pass wrote after the one numbered so. Passes commit in the order of their numbers, since each
-- holds the fence until it has.
SELECT s.preset_id, s.pass_seq, p.organization_id
FROM preset_status s JOIN presets p ON p.id = s.preset_id
WHERE s.pass_seq > @after::bigint ORDER BY s.pass_seq;

-- name: EventMarks :one
-- The ends of the logs: what comes after them is new.
SELECT coalesce((SELECT max(h.id) FROM workspace_history h), 0)::bigint AS history,
       coalesce((SELECT max(a.id) FROM audit_log a), 0)::bigint AS audit,
       coalesce((SELECT max(s.pass_seq) FROM preset_status s), 0)::bigint AS status,
       prewarm_now()::timestamptz AS now;

-- name: ForgeJobsSince :many
-- Jobs of forges that changed after an instant, at most max_rows of them.
SELECT j.id, j.organization_id, j.entity_id, j.updated_at
FROM forge_jobs j WHERE j.updated_at > @after::timestamptz ORDER BY j.updated_at, j.id LIMIT @max_rows;

-- name: ForgeStates :many
-- What people see of each entity of a forge, to compare it with what was seen before; of all its runners one number.
SELECT e.id, e.organization_id, e.updated_at, e.stopped_at, s.succeeded_at, s.error_at, s.wait_until,
       coalesce(r.digest, 0)::bigint AS runners
FROM forge_entities e
LEFT JOIN forge_status s ON s.entity_id = e.id
LEFT JOIN (
  SELECT f.entity_id,
         bit_xor(hashtextextended(concat_ws(' ', f.workspace_id, f.incarnation, f.status, f.runner_id, f.registered_at), 0)) AS digest
  FROM forge_runners f WHERE f.status <> 'gone' GROUP BY f.entity_id
) r ON r.entity_id = e.id
WHERE e.deleted_at IS NULL;
