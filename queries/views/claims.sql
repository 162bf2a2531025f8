-- Claims as people see them: a page of ids in the order of the state that is asked for, each by the index that is that
-- state's, and then what is shown of them. Nothing here locks or writes.
--
-- words are patterns, each of which must match what a claim is found by: its pool, its user, its workspace. Pools and
-- users are read once, and only where there are words, so that the plan is the one of a list without them. Those that wait or
-- are bound are as many as the fleet, and a list sorts them in any case; of those that are over only a window is searched at a
-- time (EndedClaimsWindow).

-- name: Quota :one
SELECT * FROM organizations WHERE id = @id;

-- name: WaitingClaims :many
-- Those that stand in line now, the longest first, with their places in the lines of their presets.
SELECT x.id, x.created_at AS at, x.place
FROM (
  SELECT c.id, c.created_at, c.preset_id, c.user_id,
         (row_number() OVER (PARTITION BY c.preset_id ORDER BY c.created_at, c.id))::int AS place
  FROM claims c
  WHERE c.state = 'waiting' AND c.deadline_at > prewarm_now() AND c.organization_id = @organization_id
) x
JOIN presets p ON p.id = x.preset_id
JOIN templates t ON t.id = p.template_id
WHERE (sqlc.narg(user_id)::uuid IS NULL OR x.user_id = sqlc.narg(user_id)::uuid)
  AND (sqlc.narg(template)::text IS NULL OR t.name = sqlc.narg(template)::text)
  AND (sqlc.narg(preset)::text IS NULL OR p.name = sqlc.narg(preset)::text)
  AND (sqlc.narg(words)::text[] IS NULL
       OR concat_ws(' ', t.name || '/' || p.name, (SELECT u.name FROM users u WHERE u.id = x.user_id)) ILIKE ALL (sqlc.narg(words)::text[]))
  AND (sqlc.narg(after_at)::timestamptz IS NULL
       OR (x.created_at, x.id) > (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
ORDER BY x.created_at, x.id
LIMIT @max_claims;

-- name: BoundClaims :many
-- Those that hold a workspace, the newest first, by the workspaces: they are fewer than all claims there were.
SELECT w.claim_id::uuid AS id, w.state_at AS at
FROM workspaces w
WHERE w.state = 'claimed' AND w.organization_id = @organization_id
  AND (sqlc.narg(template)::text IS NULL
       OR w.template_id IN (SELECT t.id FROM templates t WHERE t.name = sqlc.narg(template)::text))
  AND (sqlc.narg(preset)::text IS NULL
       OR w.preset_id IN (SELECT p.id FROM presets p WHERE p.name = sqlc.narg(preset)::text))
  AND (sqlc.narg(outcome)::claim_outcome IS NULL
       OR (SELECT c.outcome FROM claims c WHERE c.id = w.claim_id) = sqlc.narg(outcome)::claim_outcome)
  AND (sqlc.narg(words)::text[] IS NULL
       OR concat_ws(' ', (SELECT jsonb_object_agg(p.id, t.name || '/' || p.name) FROM presets p JOIN templates t ON t.id = p.template_id) ->> w.preset_id::text,
                    (SELECT jsonb_object_agg(u.id, u.name) FROM users u) ->> w.owner_id::text,
                    w.name) ILIKE ALL (sqlc.narg(words)::text[]))
  AND (sqlc.narg(after_at)::timestamptz IS NULL
       OR (w.state_at, w.claim_id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
ORDER BY w.state_at DESC, w.claim_id DESC
LIMIT @max_claims;

-- name: BoundClaimsOf :many
-- The same of one user, by what the user has: a member's page reads nobody else's rows.
SELECT w.claim_id::uuid AS id, w.state_at AS at
FROM workspaces w
WHERE w.state = 'claimed' AND w.organization_id = @organization_id
  AND w.owner_id = @user_id
  AND (sqlc.narg(template)::text IS NULL
       OR w.template_id IN (SELECT t.id FROM templates t WHERE t.name = sqlc.narg(template)::text))
  AND (sqlc.narg(preset)::text IS NULL
       OR w.preset_id IN (SELECT p.id FROM presets p WHERE p.name = sqlc.narg(preset)::text))
  AND (sqlc.narg(outcome)::claim_outcome IS NULL
       OR (SELECT c.outcome FROM claims c WHERE c.id = w.claim_id) = sqlc.narg(outcome)::claim_outcome)
  AND (sqlc.narg(words)::text[] IS NULL
       OR concat_ws(' ', (SELECT jsonb_object_agg(p.id, t.name || '/' || p.name) FROM presets p JOIN templates t ON t.id = p.template_id) ->> w.preset_id::text,
                    (SELECT jsonb_object_agg(u.id, u.name) FROM users u) ->> w.owner_id::text,
                    w.name) ILIKE ALL (sqlc.narg(words)::text[]))
  AND (sqlc.narg(after_at)::timestamptz IS NULL
       OR (w.state_at, w.claim_id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
ORDER BY w.state_at DESC, w.claim_id DESC
LIMIT @max_claims;

-- name: EndedClaims :many
-- Those that are over, released or missed, by when they ended, the latest first.
SELECT c.id, coalesce(c.released_at, c.created_at)::timestamptz AS at
FROM claims c
WHERE c.state IN ('released', 'missed') AND c.state = @state AND c.organization_id = @organization_id
  AND (sqlc.narg(user_id)::uuid IS NULL OR c.user_id = sqlc.narg(user_id)::uuid)
  AND (sqlc.narg(template)::text IS NULL
       OR c.preset_id IN (SELECT p.id FROM presets p JOIN templates t ON t.id = p.template_id
                          WHERE t.name = sqlc.narg(template)::text))
  AND (sqlc.narg(preset)::text IS NULL
       OR c.preset_id IN (SELECT p.id FROM presets p WHERE p.name = sqlc.narg(preset)::text))
  AND (sqlc.narg(outcome)::claim_outcome IS NULL OR c.outcome = sqlc.narg(outcome)::claim_outcome)
  AND (sqlc.narg(words)::text[] IS NULL
       OR concat_ws(' ', (SELECT jsonb_object_agg(p.id, t.name || '/' || p.name) FROM presets p JOIN templates t ON t.id = p.template_id) ->> c.preset_id::text,
                    (SELECT jsonb_object_agg(u.id, u.name) FROM users u) ->> c.user_id::text,
                    (SELECT w.name FROM workspaces w WHERE w.id = c.workspace_id)) ILIKE ALL (sqlc.narg(words)::text[]))
  AND (sqlc.narg(bottom_at)::timestamptz IS NULL
       OR (coalesce(c.released_at, c.created_at), c.id) >= (sqlc.narg(bottom_at)::timestamptz, sqlc.narg(bottom_id)::uuid))
  AND (sqlc.narg(after_at)::timestamptz IS NULL
       OR (coalesce(c.released_at, c.created_at), c.id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
ORDER BY coalesce(c.released_at, c.created_at) DESC, c.id DESC
LIMIT @max_claims;

-- name: EndedClaimsWindow :one
-- The last of so many that are over, from (after_at, after_id) on: how far one search goes. No row where there are fewer.
SELECT c.id, coalesce(c.released_at, c.created_at)::timestamptz AS at
FROM claims c
WHERE c.state IN ('released', 'missed') AND c.state = @state AND c.organization_id = @organization_id
  AND (sqlc.narg(after_at)::timestamptz IS NULL
       OR (coalesce(c.released_at, c.created_at), c.id) < (sqlc.narg(after_at)::timestamptz, sqlc.narg(after_id)::uuid))
ORDER BY coalesce(c.released_at, c.created_at) DESC, c.id DESC
OFFSET @size LIMIT 1;

-- name: ClaimsOfGroup :many
-- The claims of one request with a count, whatever their state.
SELECT c.id, c.created_at AS at
FROM claims c
WHERE c.group_id = @group_id::uuid AND c.organization_id = @organization_id
  AND (sqlc.narg(user_id)::uuid IS NULL OR c.user_id = sqlc.narg(user_id)::uuid)
ORDER BY c.id
LIMIT @max_claims;

-- name: ClaimViews :many
-- What is shown of each, in no order. The stages are those of ClaimReceipt.
SELECT c.id, c.state, c.outcome, c.mode, c.cold, c.from_standby, c.reason, c.reason_code, c.created_at, c.deadline_at, c.bound_at,
       c.released_at, coalesce(c.lease_s, 0)::int AS lease_s, c.lease_until, c.user_id, coalesce(u.name, '') AS user_name,
       coalesce(t.name, '') AS template, coalesce(p.name, '') AS preset, c.workspace_id,
       coalesce(w.name, '') AS workspace, coalesce(w.incarnation = c.incarnation, false)::boolean AS current,
       coalesce(extract(epoch FROM coalesce(c.bound_at, prewarm_now()) - c.created_at) * 1000, 0)::double precision AS wait_ms,
       coalesce(extract(epoch FROM a.claim_seen_at - c.bound_at) * 1000, 0)::double precision AS told_ms,
       coalesce(extract(epoch FROM a.claim_ready_at - a.claim_seen_at) * 1000, 0)::double precision AS hook_ms,
       (a.claim_seen_at IS NOT NULL)::boolean AS told, (a.claim_ready_at IS NOT NULL)::boolean AS ready,
       c.group_id, (SELECT count(*) FROM claims g WHERE g.group_id = c.group_id)::int AS group_size,
       (SELECT count(*) FROM claims g WHERE g.group_id = c.group_id AND g.state = c.state)::int AS group_alike,
       -- One that waits gets all of its workspaces at once: how many are there by now.
       coalesce(CASE WHEN c.group_id IS NOT NULL AND c.state = 'waiting' THEN
         (SELECT count(*) FROM workspaces r WHERE r.preset_id = c.preset_id AND r.state = 'ready') END, 0)::int AS group_ready
FROM claims c
LEFT JOIN users u ON u.id = c.user_id
LEFT JOIN presets p ON p.id = c.preset_id
LEFT JOIN templates t ON t.id = p.template_id
LEFT JOIN workspaces w ON w.id = c.workspace_id
LEFT JOIN agents a ON a.workspace_id = c.workspace_id AND a.incarnation = c.incarnation AND a.claim_id = c.id
WHERE c.id = ANY (@ids::uuid[]);

-- name: PoolView :one
-- Why a claim found nothing warm: what the pool looks like to it.
SELECT p.template_id, (p.instances IS NOT NULL)::boolean AS pool, d.desired, (p.deleted_at IS NOT NULL OR t.deleted_at IS NOT NULL)::boolean AS gone,
       (t.deprecated_at IS NOT NULL)::boolean AS deprecated, (pr.deleted_at IS NOT NULL)::boolean AS provider_deleted,
       (SELECT count(*) FROM unclaimed_workspaces w
        WHERE w.preset_id = p.id AND w.template_id = p.template_id AND w.class = 'starting')::int AS starting,
       EXISTS (SELECT FROM workspaces w WHERE w.state = 'standby' AND w.preset_id = p.id) AS standby,
       coalesce(f.streak, 0)::int AS failures, coalesce(f.last_error, '') AS last_error, p.metered,
       (p.forge_entity_id IS NOT NULL)::boolean AS runners,
       coalesce((SELECT e.name FROM forge_entities e WHERE e.id = p.forge_entity_id), '')::text AS forge, p.name AS preset,
       t.name AS template,
       (v.agent IS NOT NULL)::boolean AS has_agent, coalesce(v.provider, '')::text AS provider
FROM presets p
JOIN templates t ON t.id = p.template_id
JOIN providers pr ON pr.name = t.provider
LEFT JOIN template_versions v ON v.id = t.active_version_id
JOIN desired_prebuilds d ON d.preset_id = p.id
LEFT JOIN preset_failures f ON f.preset_id = p.id AND f.pool_key = p.pool_key
WHERE p.id = @preset_id;

-- name: CountClaimed :one
-- Workspaces that are claimed in an organization, and claims that wait for one.
SELECT ((SELECT count(*) FROM workspaces w
         WHERE w.state = 'claimed' AND w.preset_id = ANY (
             ARRAY(SELECT p.id FROM presets p WHERE p.organization_id = @organization_id)))
      + (SELECT count(*) FROM claims c
         WHERE c.state = 'waiting' AND c.deadline_at > prewarm_now() AND c.preset_id = ANY (
             ARRAY(SELECT p.id FROM presets p WHERE p.organization_id = @organization_id))))::int AS n;
