-- Agents: who may speak for a workspace, what they report, and what they are told. A report touches the agent's row and
-- no workspace; only coderd/workspaces moves those.

-- name: SigningKeys :many
-- All that verify, the one that signs first.
SELECT * FROM signing_keys WHERE retired_at IS NULL ORDER BY created_at DESC, id;

-- name: EnsureSigningKey :exec
-- The first key. Of two replicas that start at once both may make one, which is as good as a rotation.
INSERT INTO signing_keys (id, secret, sealed, sealed_by, created_at)
SELECT @id, @secret, sqlc.narg(sealed), sqlc.narg(sealed_by), prewarm_now() WHERE NOT EXISTS (SELECT FROM signing_keys k WHERE k.retired_at IS NULL);

-- name: InsertSigningKey :exec
INSERT INTO signing_keys (id, secret, sealed, sealed_by, created_at)
VALUES (@id, @secret, sqlc.narg(sealed), sqlc.narg(sealed_by), prewarm_now());

-- name: LockSigningKeys :many
-- For sealing them anew. Keys that are retired stay as they are: nothing that they signed is good.
SELECT * FROM signing_keys WHERE retired_at IS NULL ORDER BY id FOR NO KEY UPDATE;

-- name: SealSigningKey :exec
UPDATE signing_keys SET secret = @secret, sealed = sqlc.narg(sealed), sealed_by = sqlc.narg(sealed_by) WHERE id = @id;

-- name: RetireSigningKeys :many
-- Retires older keys: all of them, or those that no agent with a valid token still uses. One that was replaced less than
-- a minute ago stays, since a replica may just have signed with it.
UPDATE signing_keys k SET retired_at = prewarm_now()
WHERE k.retired_at IS NULL
  AND EXISTS (SELECT FROM signing_keys newer
              WHERE newer.retired_at IS NULL AND newer.created_at > k.created_at
                AND (@everything::boolean OR newer.created_at < prewarm_now() - interval '1 minute'))
  AND (@everything::boolean OR NOT EXISTS (
    SELECT FROM agents a JOIN workspaces w ON w.id = a.workspace_id AND w.incarnation = a.incarnation
    WHERE a.key_id = k.id AND w.state IN ('provisioning', 'starting', 'ready', 'standby', 'claimed')))
RETURNING k.id;

-- name: ExpectAgent :execrows
-- Before a create: from now on only the token of this attempt is good. A worker that comes late changes nothing.
INSERT INTO agents AS a (workspace_id, incarnation, attempt, key_id, heartbeat_timeout_s, created_at)
VALUES (@workspace_id, @incarnation, @attempt, @key_id, @heartbeat_timeout_s, prewarm_now())
ON CONFLICT (workspace_id, incarnation) DO UPDATE
SET attempt = excluded.attempt, key_id = excluded.key_id, status = 'expected', message = '', heartbeat_at = NULL
WHERE a.attempt < excluded.attempt;

-- name: InstanceOf :one
-- What a token is checked against, and what its bearer asks for most: whether the workspace is claimed.
SELECT w.id, w.name, w.state, w.incarnation, w.template_id, w.claim_id, a.attempt, a.status, a.claim_id AS seen_claim_id,
       a.heartbeat_timeout_s
FROM agents a
JOIN workspaces w ON w.id = a.workspace_id
WHERE a.workspace_id = @workspace_id AND a.incarnation = @incarnation;

-- name: ReportAgent :one
-- A report, which is also a heartbeat. No row: a later attempt has the agent's place.
WITH old AS (
  SELECT a.status, a.claim_id FROM agents a
  WHERE a.workspace_id = @workspace_id AND a.incarnation = @incarnation AND a.attempt = @attempt
  FOR NO KEY UPDATE
)
UPDATE agents a
SET status = @status, message = @message, key_id = @key_id, heartbeat_at = prewarm_now(), alarmed_at = NULL,
    system_info = coalesce(sqlc.narg(system_info)::jsonb, a.system_info),
    claim_id = coalesce(sqlc.narg(claim_id)::uuid, a.claim_id),
    claim_seen_at = CASE WHEN sqlc.narg(claim_id)::uuid IS DISTINCT FROM old.claim_id AND sqlc.narg(claim_id)::uuid IS NOT NULL
                    THEN prewarm_now() ELSE a.claim_seen_at END,
    claim_ready_at = CASE WHEN @status::agent_status = 'claim-ready' AND a.status <> 'claim-ready'
                     THEN prewarm_now() ELSE a.claim_ready_at END
FROM old
WHERE a.workspace_id = @workspace_id AND a.incarnation = @incarnation AND a.attempt = @attempt
RETURNING old.status AS before;

-- name: ProbeNow :execrows
-- The agent has said something that a probe waits for: a pending one need not wait any longer.
UPDATE jobs j
SET due_at = CASE WHEN j.state = 'pending' THEN prewarm_now() ELSE j.due_at END
WHERE j.workspace_id = @workspace_id AND j.kind = 'probe' AND j.state IN ('pending', 'running');

-- name: UndeliveredClaims :many
-- Which of these workspaces are claimed without their agent having said that it knows.
SELECT w.id
FROM workspaces w
JOIN agents a ON a.workspace_id = w.id AND a.incarnation = w.incarnation
WHERE w.id = ANY (@ids::uuid[]) AND w.state = 'claimed' AND w.claim_id IS DISTINCT FROM a.claim_id;

-- name: AgentPulse :one
-- How many agents of ready and claimed workspaces there are, and how many of these are silent.
SELECT count(*)::int AS agents,
       (count(*) FILTER (WHERE both_states.silent AND both_states.state = 'ready'))::int AS silent_ready,
       (count(*) FILTER (WHERE both_states.silent AND both_states.state = 'claimed'))::int AS silent_claimed
FROM (
  SELECT w.state, a.heartbeat_at < prewarm_now() - a.heartbeat_timeout_s * interval '1 second' AS silent
  FROM workspaces w JOIN agents a ON a.workspace_id = w.id AND a.incarnation = w.incarnation
  WHERE w.state = 'ready'
  UNION ALL
  SELECT w.state, a.heartbeat_at < prewarm_now() - a.heartbeat_timeout_s * interval '1 second'
  FROM workspaces w JOIN agents a ON a.workspace_id = w.id AND a.incarnation = w.incarnation
  WHERE w.state = 'claimed'
) both_states;

-- name: SilentReady :many
-- Agents of ready workspaces that fell silent. An observer that watches for less than their time-out leaves them.
SELECT w.id, w.incarnation, w.name, a.recoveries,
       extract(epoch FROM prewarm_now() - a.heartbeat_at)::double precision AS silent_s
FROM workspaces w JOIN agents a ON a.workspace_id = w.id AND a.incarnation = w.incarnation
WHERE w.state = 'ready' AND a.heartbeat_at < prewarm_now() - a.heartbeat_timeout_s * interval '1 second'
  AND a.heartbeat_timeout_s <= sqlc.arg(watched_s)::double precision
ORDER BY a.heartbeat_at
LIMIT @max_agents;

-- name: AlarmSilentClaimed :many
-- Agents of claimed workspaces that fell silent: nothing is done to those (I2), but people are told, once.
UPDATE agents a SET alarmed_at = prewarm_now()
FROM workspaces w
WHERE w.state = 'claimed' AND a.workspace_id = w.id AND a.incarnation = w.incarnation AND a.alarmed_at IS NULL
  AND a.heartbeat_at < prewarm_now() - a.heartbeat_timeout_s * interval '1 second'
  AND a.heartbeat_timeout_s <= sqlc.arg(watched_s)::double precision
RETURNING w.id, w.name, extract(epoch FROM prewarm_now() - a.heartbeat_at)::double precision AS silent_s;

-- name: WipeSecrets :execrows
-- The agent has them: they are in the workspace, and nowhere else from now on.
UPDATE claim_parameters SET secrets = NULL WHERE claim_id = @claim_id AND secrets IS NOT NULL;
