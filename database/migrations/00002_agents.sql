-- Agents: what runs inside a workspace and reports for it, the tokens it speaks with, and what it is told at a claim.
--
-- The binary before knows none of this and runs on: it makes versions without an agent, and asks providers for readiness.

-- +goose Up
-- What the agent of a workspace does: {"on_start": [...], "on_claim": [...], "heartbeat_timeout_s": n}. Null: there is
-- none, and the provider is asked for readiness. Part of a version, since other scripts make other workspaces; beside the
-- spec and not in it, since it means the same at every provider.
ALTER TABLE template_versions ADD COLUMN agent jsonb;

-- What signs instance tokens. The newest signs, all that are not retired verify.
CREATE TABLE signing_keys (
  id         uuid PRIMARY KEY,
  secret     bytea NOT NULL CHECK (octet_length(secret) = 32),
  created_at timestamptz NOT NULL,
  retired_at timestamptz
);

CREATE TYPE agent_status AS ENUM
  ('expected', 'starting', 'ready', 'unhealthy', 'silent', 'claim-ready', 'claim-failed');

-- One agent for each incarnation. Heartbeats are written here and never on the workspace, where each would hide a ready
-- row from claims for a moment (DESIGN section 6); room is left on the pages, so that they touch no index.
CREATE TABLE agents (
  workspace_id        uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  incarnation         integer NOT NULL,
  attempt             integer NOT NULL, -- of the create job: a token of another attempt is refused (G7)
  key_id              uuid NOT NULL REFERENCES signing_keys (id), -- of the token it was last seen with
  heartbeat_timeout_s integer NOT NULL CHECK (heartbeat_timeout_s > 0),
  status              agent_status NOT NULL DEFAULT 'expected',
  message             text NOT NULL DEFAULT '',
  system_info         jsonb NOT NULL DEFAULT '{}',
  recoveries          integer NOT NULL DEFAULT 0, -- how often it fell silent while ready
  created_at          timestamptz NOT NULL,
  heartbeat_at        timestamptz,
  alarmed_at          timestamptz, -- since when people know that it is silent in a claimed workspace
  claim_id            uuid,        -- the claim that the agent has said it knows of
  claim_seen_at       timestamptz,
  claim_ready_at      timestamptz,
  PRIMARY KEY (workspace_id, incarnation),
  CHECK ((claim_id IS NULL) = (claim_seen_at IS NULL))
) WITH (fillfactor = 70);

-- Parameters given with a claim, perhaps secrets: for the agent of the claimed workspace only, and gone soon after the
-- claim is over. Apart from the claims, whose rows are made in the hot statement.
CREATE TABLE claim_parameters (
  claim_id   uuid PRIMARY KEY,
  parameters jsonb NOT NULL,
  created_at timestamptz NOT NULL
);
