-- The first schema: who may do what, what is kept warm, the workspaces, the work on them, and the record of it.
--
-- Rules of this folder: a migration runs in one transaction with a lock time-out; the binary before and the binary
-- after it must both run on the schema after it.

-- +goose Up
-- The only clock of SQL (DESIGN section 5). A test or a simulation sets it for its session with
-- `SET prewarm.now = '2026-01-01T00:00:00Z'`.
-- +goose StatementBegin
CREATE FUNCTION prewarm_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT coalesce(nullif(current_setting('prewarm.now', true), '')::timestamptz, statement_timestamp())
$$;
-- +goose StatementEnd

-- When the current transaction began, on the same clock: in REPEATABLE READ a lower bound of the snapshot's instant,
-- where prewarm_now() of a later statement is not.
-- +goose StatementBegin
CREATE FUNCTION prewarm_transaction_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT coalesce(nullif(current_setting('prewarm.now', true), '')::timestamptz, transaction_timestamp())
$$;
-- +goose StatementEnd

CREATE TYPE role AS ENUM ('owner', 'template-admin', 'member', 'auditor', 'system');
CREATE TYPE workspace_state AS ENUM
  ('provisioning', 'starting', 'ready', 'standby', 'claimed', 'draining', 'deleting', 'deleted', 'quarantined');
CREATE TYPE job_kind AS ENUM ('create', 'probe', 'drain', 'delete');
CREATE TYPE job_state AS ENUM ('pending', 'running', 'done', 'failed', 'cancelled');
CREATE TYPE claim_state AS ENUM ('waiting', 'bound', 'released', 'missed');
CREATE TYPE claim_mode AS ENUM ('prefer', 'require');
CREATE TYPE claim_outcome AS ENUM ('hit', 'waited', 'miss');
CREATE TYPE intent_kind AS ENUM ('drain', 'cancel');
CREATE TYPE pause_scope AS ENUM ('global', 'provider', 'template', 'preset');

-- One row: what makes this installation different from any other (the tag on every resource at a provider).
CREATE TABLE installation (
  only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  id         uuid NOT NULL,
  created_at timestamptz NOT NULL
);

CREATE TABLE organizations (
  id         uuid PRIMARY KEY,
  name       text NOT NULL UNIQUE,
  created_at timestamptz NOT NULL
);

CREATE TABLE users (
  id          uuid PRIMARY KEY,
  name        text NOT NULL UNIQUE,
  created_at  timestamptz NOT NULL,
  disabled_at timestamptz
);

CREATE TABLE memberships (
  organization_id uuid NOT NULL REFERENCES organizations (id),
  user_id         uuid NOT NULL REFERENCES users (id),
  role            role NOT NULL,
  PRIMARY KEY (organization_id, user_id)
);

-- A bearer token: 256 random bits, of which only the SHA-256 is stored.
CREATE TABLE tokens (
  id           uuid PRIMARY KEY,
  user_id      uuid NOT NULL REFERENCES users (id)
    CHECK (user_id <> '00000000-0000-4000-8000-000000000002'), -- the built-in identity has no token, ever (C16)
  name         text NOT NULL,
  hash         bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  hint         text NOT NULL, -- the first characters, to tell tokens apart in a list
  created_at   timestamptz NOT NULL,
  created_by   uuid NOT NULL REFERENCES users (id),
  expires_at   timestamptz,
  last_used_at timestamptz,
  revoked_at   timestamptz
);
CREATE INDEX tokens_user ON tokens (user_id);

-- Where workspaces live. The limits are those of rules S4 and S5; 0 means no limit.
CREATE TABLE providers (
  name               text PRIMARY KEY,
  kind               text NOT NULL,
  config             jsonb NOT NULL DEFAULT '{}',
  maximum            integer NOT NULL DEFAULT 0 CHECK (maximum >= 0),
  creates_in_flight  integer NOT NULL DEFAULT 16 CHECK (creates_in_flight > 0),
  chunk              integer NOT NULL DEFAULT 1000 CHECK (chunk > 0), -- creates per pass
  updated_at         timestamptz NOT NULL
);

CREATE TABLE templates (
  id                uuid PRIMARY KEY,
  organization_id   uuid NOT NULL REFERENCES organizations (id),
  name              text NOT NULL CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$'),
  description       text NOT NULL DEFAULT '',
  provider          text NOT NULL REFERENCES providers (name),
  active_version_id uuid,
  keep_outdated     boolean NOT NULL DEFAULT false, -- C7: prebuilds of older versions stay claimable
  boot_timeout_s    integer NOT NULL DEFAULT 1200 CHECK (boot_timeout_s > 0),
  created_at        timestamptz NOT NULL,
  updated_at        timestamptz NOT NULL,
  deprecated_at     timestamptz,
  deleted_at        timestamptz
);
CREATE UNIQUE INDEX templates_name ON templates (organization_id, name) WHERE deleted_at IS NULL;

-- Immutable; `hash` is the SHA-256 of the canonical JSON of provider and spec.
CREATE TABLE template_versions (
  id          uuid PRIMARY KEY,
  template_id uuid NOT NULL REFERENCES templates (id),
  number      integer NOT NULL, -- 1, 2, 3 … within the template: what people say
  hash        text NOT NULL,
  provider    text NOT NULL REFERENCES providers (name),
  spec        jsonb NOT NULL,
  created_at  timestamptz NOT NULL,
  created_by  uuid NOT NULL REFERENCES users (id),
  UNIQUE (template_id, hash),
  UNIQUE (template_id, number)
);
ALTER TABLE templates ADD FOREIGN KEY (active_version_id) REFERENCES template_versions (id);

-- A named set of parameters; a pool where `instances` is not null. `pool_key` is a digest of organization, template,
-- active version, preset name, parameters and generation: whatever changes it makes the prebuilds made before outdated.
CREATE TABLE presets (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES organizations (id),
  template_id     uuid NOT NULL REFERENCES templates (id),
  name            text NOT NULL CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$'),
  parameters      jsonb NOT NULL DEFAULT '{}',
  pool_key        uuid NOT NULL,
  generation      integer NOT NULL DEFAULT 1,
  instances       integer CHECK (instances BETWEEN 0 AND 100000),
  ttl_s           bigint CHECK (ttl_s > 0),
  priority        integer NOT NULL DEFAULT 0, -- higher is served first when a limit binds
  created_at      timestamptz NOT NULL,
  updated_at      timestamptz NOT NULL,
  deleted_at      timestamptz
);
CREATE UNIQUE INDEX presets_name ON presets (template_id, name) WHERE deleted_at IS NULL;

-- One instance at a provider, whoever owns it. Only coderd/workspaces writes `state`, each time by a compare-and-set
-- with a history row in the same transaction. Foreign keys are few on purpose: passes insert these in thousands.
CREATE TABLE workspaces (
  id                  uuid PRIMARY KEY,
  name                text NOT NULL UNIQUE, -- never reused (I1)
  organization_id     uuid NOT NULL,
  template_id         uuid NOT NULL,
  template_version_id uuid NOT NULL REFERENCES template_versions (id),
  preset_id           uuid NOT NULL REFERENCES presets (id),
  pool_key            uuid NOT NULL,
  provider            text NOT NULL,
  site                text NOT NULL DEFAULT '', -- from where the resource can be reached; empty: from every replica
  parameters          jsonb NOT NULL,
  state               workspace_state NOT NULL,
  incarnation         integer NOT NULL DEFAULT 1 CHECK (incarnation > 0),
  owner_id            uuid NOT NULL, -- the built-in identity until claimed (C16)
  claim_id            uuid,
  provider_id         text NOT NULL DEFAULT '',
  addresses           jsonb NOT NULL DEFAULT '[]',
  environment         jsonb NOT NULL DEFAULT '{}',
  fault               text NOT NULL DEFAULT '',
  created_at          timestamptz NOT NULL,
  state_at            timestamptz NOT NULL, -- since when in this state
  ready_at            timestamptz,
  claimed_at          timestamptz,
  deleted_at          timestamptz,
  expires_at          timestamptz,
  CHECK ((state = 'claimed') <= (claim_id IS NOT NULL)),
  CHECK ((state IN ('ready', 'claimed')) <= (ready_at IS NOT NULL))
);
-- A claim reads this in order; the pool key already contains the version.
CREATE INDEX workspaces_claimable ON workspaces (preset_id, pool_key, ready_at, id) WHERE state = 'ready';
-- A pass reads this; claimed and deleted rows cost it nothing.
CREATE INDEX workspaces_unclaimed ON workspaces (template_id, preset_id)
  WHERE state NOT IN ('claimed', 'deleted');
CREATE INDEX workspaces_claimed ON workspaces (preset_id) WHERE state = 'claimed';
CREATE INDEX workspaces_owner ON workspaces (owner_id, created_at) WHERE state = 'claimed';
-- Counted only for providers with a maximum. One index over both halves would tempt the planner to read all claimed rows
-- for a snapshot of the unclaimed.
CREATE INDEX workspaces_claimed_by_provider ON workspaces (provider) WHERE state = 'claimed';
CREATE INDEX workspaces_deleted ON workspaces (deleted_at) WHERE state = 'deleted';

-- Provider work. A running job whose lease ended is as free to take as a pending one that is due: `due_at` is the
-- earliest start of a pending job and the end of the lease of a running one. `attempt` is the fencing token (I5).
CREATE TABLE jobs (
  id           uuid PRIMARY KEY,
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  incarnation  integer NOT NULL,
  kind         job_kind NOT NULL,
  provider     text NOT NULL,
  site         text NOT NULL DEFAULT '',
  priority     integer NOT NULL DEFAULT 0, -- lower first: people's work 0, prebuilds 10
  state        job_state NOT NULL DEFAULT 'pending',
  attempt      integer NOT NULL DEFAULT 0, -- how often it was leased
  failures     integer NOT NULL DEFAULT 0, -- how often the provider said no; being killed does not count
  due_at       timestamptz NOT NULL,
  leased_by    text NOT NULL DEFAULT '',
  last_error   text NOT NULL DEFAULT '',
  force        boolean NOT NULL DEFAULT false, -- of a delete: ignore what the provider says and end (G5)
  created_at   timestamptz NOT NULL,
  finished_at  timestamptz,
  CHECK ((state IN ('done', 'failed', 'cancelled')) = (finished_at IS NOT NULL))
);
CREATE UNIQUE INDEX jobs_one_active ON jobs (workspace_id) WHERE state IN ('pending', 'running');
-- Leasing reads this in order, so that a long line of jobs costs no more than a short one.
CREATE INDEX jobs_due ON jobs (kind, provider, priority, due_at, id) WHERE state IN ('pending', 'running');
CREATE INDEX jobs_running ON jobs (kind, provider) WHERE state = 'running'; -- counts creates in flight (S5)
CREATE INDEX jobs_workspace ON jobs (workspace_id);

-- What a pass wants of an unclaimed workspace; a worker carries it out unless a claim came first. No foreign keys and
-- inserted only by passes, so that claims and passes neither wait for nor abort each other (DESIGN section 3, step 6).
CREATE TABLE intents (
  workspace_id uuid NOT NULL,
  incarnation  integer NOT NULL,
  kind         intent_kind NOT NULL,
  reason       text NOT NULL,
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, incarnation)
);
CREATE INDEX intents_age ON intents (created_at);

CREATE TABLE claims (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  preset_id       uuid NOT NULL REFERENCES presets (id),
  user_id         uuid NOT NULL REFERENCES users (id),
  idempotency_key text CHECK (length(idempotency_key) BETWEEN 1 AND 200),
  mode            claim_mode NOT NULL,
  state           claim_state NOT NULL,
  outcome         claim_outcome,
  workspace_id    uuid,
  incarnation     integer,
  reason          text NOT NULL DEFAULT '', -- of a miss
  created_at      timestamptz NOT NULL,
  deadline_at     timestamptz, -- of a waiting one
  bound_at        timestamptz,
  released_at     timestamptz,
  CHECK ((state IN ('bound', 'released')) = (workspace_id IS NOT NULL)),
  CHECK ((workspace_id IS NULL) = (incarnation IS NULL)),
  CHECK ((state = 'waiting') <= (deadline_at IS NOT NULL))
);
-- I1: one (workspace, incarnation) is claimed by at most one claim, ever.
CREATE UNIQUE INDEX claims_workspace ON claims (workspace_id, incarnation) WHERE workspace_id IS NOT NULL;
CREATE UNIQUE INDEX claims_key ON claims (user_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX claims_waiting ON claims (preset_id, created_at, id) WHERE state = 'waiting';
CREATE INDEX claims_history ON claims (preset_id, created_at);
CREATE INDEX claims_ended ON claims ((coalesce(released_at, created_at))) WHERE state IN ('released', 'missed');

-- Every transition ever made, kept until purged by age.
CREATE TABLE workspace_history (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id uuid NOT NULL,
  incarnation  integer NOT NULL,
  from_state   workspace_state,
  to_state     workspace_state NOT NULL,
  at           timestamptz NOT NULL,
  actor_id     uuid NOT NULL,
  reason       text NOT NULL DEFAULT '',
  job_id       uuid,
  attempt      integer
);
CREATE INDEX workspace_history_workspace ON workspace_history (workspace_id, id);
CREATE INDEX workspace_history_at ON workspace_history (at);

-- Failed creates in a row, per pool; written by workers, read by passes (C8).
CREATE TABLE preset_failures (
  preset_id  uuid NOT NULL REFERENCES presets (id),
  pool_key   uuid NOT NULL,
  streak     integer NOT NULL,
  last_error text NOT NULL,
  last_at    timestamptz NOT NULL,
  PRIMARY KEY (preset_id, pool_key)
);

-- Written only by passes, and only when changed: what `preset list`, `explain` and the UI show of the last decision.
CREATE TABLE preset_status (
  preset_id  uuid PRIMARY KEY REFERENCES presets (id),
  counts     jsonb NOT NULL,
  ledger     jsonb NOT NULL,
  error      text NOT NULL DEFAULT '',
  digest     bytea NOT NULL, -- of the above: a pass writes only rows whose digest differs
  pass_seq   bigint NOT NULL,
  changed_at timestamptz NOT NULL
);

-- The fence (DESIGN section 3, step 3). Two passes that overlap write the same row, so that the later one fails with
-- 40001 and runs again on a fresh snapshot.
CREATE TABLE reconcile_fence (
  only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  seq          bigint NOT NULL DEFAULT 0,
  holder       text NOT NULL DEFAULT '', -- the replica of the last pass
  began_at     timestamptz,              -- of the last pass
  full_seq     bigint NOT NULL DEFAULT 0,
  full_began_at timestamptz              -- of the last pass over everything
);
INSERT INTO reconcile_fence DEFAULT VALUES;

-- When the last nudge pass over a template began, so that other replicas drop the same nudge.
CREATE TABLE template_passes (
  template_id uuid PRIMARY KEY REFERENCES templates (id),
  began_at    timestamptz NOT NULL
);

-- What the last full pass left of each provider's maximum, for nudge passes to spend under the fence.
CREATE TABLE headroom (
  provider  text PRIMARY KEY REFERENCES providers (name),
  maximum   integer NOT NULL, -- the one it was computed under: it says nothing about another
  instances integer NOT NULL
);

CREATE TABLE pauses (
  id         uuid PRIMARY KEY,
  scope      pause_scope NOT NULL,
  target     text NOT NULL, -- provider name, template id or preset id; empty for global
  reason     text NOT NULL,
  created_at timestamptz NOT NULL,
  created_by uuid NOT NULL REFERENCES users (id),
  expires_at timestamptz,
  UNIQUE (scope, target)
);

CREATE TABLE replicas (
  name         text PRIMARY KEY,
  instance_id  uuid NOT NULL, -- of this run of it
  version      text NOT NULL,
  address      text NOT NULL,
  sites        text[] NOT NULL DEFAULT '{}',
  started_at   timestamptz NOT NULL,
  heartbeat_at timestamptz NOT NULL,
  stopping     boolean NOT NULL DEFAULT false
);

-- Who did what, on what, before and after, from where; in the transaction of the deed.
CREATE TABLE audit_log (
  id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at              timestamptz NOT NULL,
  actor_id        uuid NOT NULL,
  organization_id uuid,
  action          text NOT NULL, -- resource.verb, such as workspace.release
  target_type     text NOT NULL,
  target_id       text NOT NULL,
  target_name     text NOT NULL DEFAULT '',
  before          jsonb,
  after           jsonb,
  reason          text NOT NULL DEFAULT '',
  source          text NOT NULL DEFAULT '' -- remote address, or the replica for the built-in identity
);
CREATE INDEX audit_log_at ON audit_log (at DESC, id DESC);
CREATE INDEX audit_log_target ON audit_log (target_type, target_id);

-- C16: the built-in identity that owns prebuilds, and the first organization.
INSERT INTO organizations (id, name, created_at)
  VALUES ('00000000-0000-4000-8000-000000000001', 'default', prewarm_now());
INSERT INTO users (id, name, created_at)
  VALUES ('00000000-0000-4000-8000-000000000002', 'prewarm', prewarm_now());
INSERT INTO memberships (organization_id, user_id, role)
  VALUES ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002', 'system');
