-- What a worker writes at the start of its work on a workspace, before the provider is called.

-- name: ExpectRunner :exec
-- When its create begins, so that there is a row before anything can register. A workspace of another kind of preset gets
-- none. At the forge it has the workspace's name, or the one by which it will register by itself.
INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status_at, status_since, created_at)
SELECT w.id, w.incarnation, p.id, p.forge_entity_id, coalesce(nullif(@name::text, ''), w.name), prewarm_now(), prewarm_now(), prewarm_now()
FROM workspaces w JOIN presets p ON p.id = w.preset_id
WHERE w.id = @workspace_id AND w.incarnation = @incarnation AND p.forge_entity_id IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: RunnerUp :exec
-- All but its forge says that it is ready: its time to register begins, once for each time that it starts (A3).
UPDATE forge_runners r SET up_at = prewarm_now()
FROM workspaces w
WHERE r.workspace_id = @workspace_id AND r.incarnation = @incarnation AND w.id = r.workspace_id
  AND w.incarnation = r.incarnation AND w.state = 'starting' AND (r.up_at IS NULL OR r.up_at < w.state_at);

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

-- name: ExpectAgentAgain :exec
-- Before a start: what the agent said before the stop says nothing now. A worker that comes late changes nothing.
UPDATE agents a SET status = 'expected', message = '', heartbeat_at = NULL
FROM jobs j
WHERE a.workspace_id = j.workspace_id AND a.incarnation = j.incarnation
  AND j.id = @job_id AND j.attempt = @attempt AND j.state = 'running';
