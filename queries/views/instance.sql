-- Agents and signing keys, as people see them.

-- name: SigningKeyViews :many
SELECT k.id, k.created_at, k.retired_at, (SELECT count(*) FROM agents a
         JOIN workspaces w ON w.id = a.workspace_id AND w.incarnation = a.incarnation
         WHERE a.key_id = k.id AND w.state IN ('provisioning', 'starting', 'ready', 'standby', 'claimed'))::int AS agents
FROM signing_keys k
ORDER BY k.created_at DESC, k.id;

-- name: InstanceMetadata :one
-- All that a workspace may know of itself. Owner, claim and its parameters are the caller's to leave out until claimed.
SELECT w.id, w.name, w.state, w.incarnation, o.name AS organization, t.name AS template, p.name AS preset,
       v.number AS version, v.agent, w.parameters, u.name AS owner, w.owner_id, w.claim_id, w.claimed_at,
       c.parameters AS claim_parameters, c.secrets, coalesce(fc.ca_bundle, '')::text AS forge_ca_bundle
FROM workspaces w
JOIN organizations o ON o.id = w.organization_id
JOIN templates t ON t.id = w.template_id
JOIN presets p ON p.id = w.preset_id
JOIN template_versions v ON v.id = w.template_version_id
JOIN users u ON u.id = w.owner_id
LEFT JOIN claim_parameters c ON c.claim_id = w.claim_id
LEFT JOIN forge_runners fr ON fr.workspace_id = w.id AND fr.incarnation = w.incarnation
LEFT JOIN forge_entities fe ON fe.id = fr.entity_id
LEFT JOIN forge_credentials fc ON fc.id = fe.credential_id
WHERE w.id = @workspace_id;

-- name: HandoverView :one
-- How the apply for the owner of a claimed workspace stands. No row: there is none.
SELECT j.state::text AS state FROM jobs j
JOIN workspaces w ON w.id = j.workspace_id AND w.incarnation = j.incarnation AND w.state = 'claimed'
WHERE j.workspace_id = @workspace_id AND j.kind = 'handover'
ORDER BY j.created_at DESC
LIMIT 1;

-- name: DriftView :one
-- What the last looks at a workspace came to, of its incarnation. No row: none has ended, or a job has changed it since.
SELECT d.looked_at, d.resources, d.error FROM workspace_drift d
JOIN workspaces w ON w.id = d.workspace_id AND w.incarnation = d.incarnation
WHERE d.workspace_id = @workspace_id AND (d.looked_at IS NOT NULL OR d.error <> '')
  AND NOT EXISTS (SELECT FROM jobs j WHERE j.workspace_id = d.workspace_id AND j.finished_at > d.looked_at);

-- name: AgentView :one
-- For people. Silent: nothing was heard for longer than the template allows. Without an agent there is something to see
-- once the workspace has reported.
SELECT a.status, a.message, a.system_info, a.recoveries, a.heartbeat_at, a.claim_seen_at, a.claim_ready_at,
       coalesce(a.heartbeat_at < prewarm_now() - a.heartbeat_timeout_s * interval '1 second', false)::boolean AS silent
FROM agents a
JOIN workspaces w ON w.id = a.workspace_id AND w.incarnation = a.incarnation
JOIN template_versions v ON v.id = w.template_version_id
WHERE a.workspace_id = @workspace_id AND (v.agent IS NOT NULL OR a.status <> 'expected');
