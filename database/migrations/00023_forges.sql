-- Forges: what is asked of them, what they say, and the runners that work for them
-- (docs/decisions/0021-jobs-of-forges-are-demand.md).
--
-- The binary before knows none of this and runs on: it sees the presets of runners as pools without demand. It would drain
-- a runner without asking its forge, so roll out to all replicas before the first runner preset is applied.

-- +goose Up
SET LOCAL lock_timeout = '10s';

CREATE TYPE forge_kind AS ENUM ('github', 'gitea');
CREATE TYPE forge_scope AS ENUM ('repository', 'organization', 'enterprise');
CREATE TYPE forge_auth AS ENUM ('token', 'app');

-- How to speak to a forge. What is secret is sealed with a key that is not in the database: `sealed_by` names the key, so
-- that keys can be rotated.
CREATE TABLE forge_credentials (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES organizations (id),
  name            text NOT NULL CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$'),
  kind            forge_kind NOT NULL,
  url             text NOT NULL, -- of the API, without a slash at the end: https://api.github.com
  auth            forge_auth NOT NULL,
  app_id          bigint,        -- of a GitHub App
  installation_id bigint,        -- of it in the organization
  secret          bytea NOT NULL, -- sealed: the token, or the App's private key
  sealed_by       text NOT NULL,
  ca_bundle       text NOT NULL DEFAULT '', -- PEM, beside the usual authorities
  created_at      timestamptz NOT NULL,
  updated_at      timestamptz NOT NULL,
  CHECK ((auth = 'app') = (app_id IS NOT NULL)),
  CHECK ((auth = 'app') = (installation_id IS NOT NULL))
);
CREATE UNIQUE INDEX forge_credentials_name ON forge_credentials (organization_id, name);

-- A repository, organization or enterprise that sends its jobs and takes runners (P1).
CREATE TABLE forge_entities (
  id                    uuid PRIMARY KEY,
  organization_id       uuid NOT NULL REFERENCES organizations (id),
  name                  text NOT NULL CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$'),
  scope                 forge_scope NOT NULL,
  path                  text NOT NULL, -- owner/repository, owner, or the enterprise's slug
  credential_id         uuid NOT NULL REFERENCES forge_credentials (id),
  balance               text NOT NULL DEFAULT 'pack' CHECK (balance IN ('pack', 'spread')), -- among presets of one priority (P4)
  webhook_secret        bytea NOT NULL, -- sealed; never of an empty text
  sealed_by             text NOT NULL,
  webhook_secret_before bytea,          -- sealed by the same; good until:
  before_until          timestamptz,
  hook_id               bigint,         -- of the webhook that Prewarm installed
  stopped_at            timestamptz,    -- since when its jobs make no demand, by a person
  stopped_reason        text NOT NULL DEFAULT '',
  created_at            timestamptz NOT NULL,
  updated_at            timestamptz NOT NULL,
  deleted_at            timestamptz,
  CHECK ((webhook_secret_before IS NULL) = (before_until IS NULL))
);
CREATE UNIQUE INDEX forge_entities_name ON forge_entities (name) WHERE deleted_at IS NULL; -- webhooks come by it

-- How it goes with an entity. Written often, so apart from what people set; whoever leases it asks the forge on behalf of all
-- replicas.
CREATE TABLE forge_status (
  entity_id          uuid PRIMARY KEY REFERENCES forge_entities (id),
  leased_by          text NOT NULL DEFAULT '',
  leased_until       timestamptz,
  asked_at           timestamptz, -- the last round that began
  succeeded_at       timestamptz, -- the last that ended well
  error              text NOT NULL DEFAULT '', -- of the last that did not; empty when it did
  error_at           timestamptz,
  wait_until         timestamptz, -- backoff after an error, or what the forge's rate limit asks for
  rate_limit         integer NOT NULL DEFAULT 0, -- requests an hour; 0: the forge has said nothing of it
  rate_remaining     integer NOT NULL DEFAULT 0,
  rate_reset_at      timestamptz,
  runners_listed_at  timestamptz, -- the last complete listing of runners: its instant of beginning
  jobs_listed_at     timestamptz,
  deliveries_through timestamptz  -- up to when the forge's deliveries were looked through
);

-- The inbox: deliveries as they came, checked for their signature and for nothing else (P2).
CREATE TABLE forge_deliveries (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  entity_id    uuid NOT NULL,
  delivery_id  text NOT NULL CHECK (length(delivery_id) BETWEEN 1 AND 200),
  event        text NOT NULL,
  body         bytea NOT NULL,
  fetched      boolean NOT NULL DEFAULT false, -- it was missed, and read from the forge afterwards
  received_at  timestamptz NOT NULL,
  handled_at   timestamptz,
  outcome      text NOT NULL DEFAULT '', -- what it was about, or why it was ignored
  leased_by    text NOT NULL DEFAULT '',
  due_at       timestamptz NOT NULL, -- the end of the lease where it is leased
  attempts     integer NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX forge_deliveries_once ON forge_deliveries (entity_id, delivery_id);
CREATE INDEX forge_deliveries_due ON forge_deliveries (due_at, id) WHERE handled_at IS NULL;
CREATE INDEX forge_deliveries_age ON forge_deliveries (received_at);
CREATE INDEX forge_deliveries_last ON forge_deliveries (entity_id, id);

CREATE TYPE forge_job_state AS ENUM ('waiting', 'queued', 'in_progress', 'completed');

-- Jobs, one row for each attempt of each, whichever entity's webhook it came by, and however often. A state only ever grows,
-- in the order of its type, so that the order in which events come makes no difference.
CREATE TABLE forge_jobs (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL,
  forge_url       text NOT NULL,   -- of the credential: ids of jobs are unique there
  job_id          bigint NOT NULL,
  attempt         integer NOT NULL CHECK (attempt > 0), -- 0 of a forge that does not count them is 1
  entity_id       uuid NOT NULL,   -- that it came by first
  repository      text NOT NULL,   -- owner/repository
  run_id          bigint NOT NULL DEFAULT 0,
  workflow        text NOT NULL DEFAULT '',
  name            text NOT NULL DEFAULT '',
  url             text NOT NULL DEFAULT '', -- for people
  labels          text[] NOT NULL, -- lower case, sorted, each once
  state           forge_job_state NOT NULL,
  conclusion      text NOT NULL DEFAULT '',
  runner_id       bigint,          -- as the forge says
  runner_name     text NOT NULL DEFAULT '',
  runner_state    forge_job_state, -- the state in which the runner was told: the word of a later one goes before
  workspace_id    uuid,            -- the runner's, where it is one of ours
  incarnation     integer,
  preset_id       uuid,            -- of a queued one: whose demand it is, null: nothing can serve it; later: its runner's
  unserved        text NOT NULL DEFAULT '', -- of a queued one without a preset: why
  queued_at       timestamptz NOT NULL, -- as the forge says, else when it was first heard of
  started_at      timestamptz,
  completed_at    timestamptz,
  seen_at         timestamptz NOT NULL, -- the last time that the forge said anything of it
  asked_at        timestamptz,          -- the last time that the forge was asked after it
  updated_at      timestamptz NOT NULL,
  CHECK ((workspace_id IS NULL) = (incarnation IS NULL))
);
CREATE UNIQUE INDEX forge_jobs_once ON forge_jobs (forge_url, job_id, attempt);
CREATE INDEX forge_jobs_queued ON forge_jobs (queued_at, id) WHERE state = 'queued';
CREATE INDEX forge_jobs_demand ON forge_jobs (preset_id) WHERE state = 'queued' AND preset_id IS NOT NULL; -- a pass counts these
CREATE INDEX forge_jobs_open ON forge_jobs (seen_at, id) WHERE state <> 'completed';
CREATE INDEX forge_jobs_workspace ON forge_jobs (workspace_id, incarnation) WHERE workspace_id IS NOT NULL;
CREATE INDEX forge_jobs_runner ON forge_jobs (runner_name) WHERE runner_name <> '' AND workspace_id IS NULL;
CREATE INDEX forge_jobs_newest ON forge_jobs (queued_at, id); -- the order of listings
CREATE INDEX forge_jobs_recent ON forge_jobs (updated_at, id);
CREATE INDEX forge_jobs_repositories ON forge_jobs (entity_id, repository); -- which an entity is known to have
CREATE INDEX forge_jobs_age ON forge_jobs (completed_at) WHERE state = 'completed';

-- A preset with a forge is one of runners: its prebuilds register there and take its jobs.
ALTER TABLE presets
  ADD COLUMN forge_entity_id uuid,
  ADD COLUMN runner_labels   text[] NOT NULL DEFAULT '{}', -- lower case, sorted, each once
  ADD COLUMN runner_group    text NOT NULL DEFAULT '',
  ADD COLUMN runner_maximum  integer CHECK (runner_maximum > 0), -- runners of it, busy or not; null: no limit
  ADD CHECK ((forge_entity_id IS NULL) = (runner_labels = '{}'));
CREATE INDEX presets_runners ON presets (forge_entity_id) WHERE forge_entity_id IS NOT NULL AND deleted_at IS NULL;

-- When surplus runners last went: half of them go each minute (P8). Null: never.
ALTER TABLE preset_status ADD COLUMN shrunk_at timestamptz;

-- pending: not yet seen at the forge. gone: not in its listing any more.
CREATE TYPE forge_runner_status AS ENUM ('pending', 'idle', 'active', 'offline', 'gone');

-- One row for each runner, apart from its workspace, as a claim takes that one.
CREATE TABLE forge_runners (
  workspace_id  uuid NOT NULL,
  incarnation   integer NOT NULL,
  preset_id     uuid NOT NULL,
  entity_id     uuid NOT NULL,
  name          text NOT NULL,   -- at the forge: the workspace's
  runner_id     bigint,          -- there; null: not known yet
  status        forge_runner_status NOT NULL DEFAULT 'pending',
  status_at     timestamptz NOT NULL, -- as of when; never from a listing that began before it
  status_since  timestamptz NOT NULL, -- when it last changed
  asked_at      timestamptz,     -- when the forge was first asked to register it; null: it cannot know of it
  asking_until  timestamptz,     -- a replica is asking now, until then at the longest
  handed_out_at timestamptz,     -- when its configuration was read, which it is once
  registered_at timestamptz,     -- when it was first known to be there
  finished_at   timestamptz,     -- when it said that it is done, or was found gone after a job
  vetoed_at     timestamptz,     -- when it was last not unregistered because of a job
  abandoned_at  timestamptz,     -- an owner had it deleted without the forge's word (P7)
  removed_at    timestamptz,     -- from when on nothing of it is to be asked of the forge
  created_at    timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, incarnation)
);
CREATE INDEX forge_runners_open ON forge_runners (entity_id) WHERE removed_at IS NULL;
CREATE INDEX forge_runners_name ON forge_runners (entity_id, name);
CREATE INDEX forge_runners_preset ON forge_runners (preset_id, status);
CREATE INDEX forge_runners_live ON forge_runners (created_at, workspace_id) WHERE status <> 'gone';
CREATE INDEX forge_runners_age ON forge_runners (created_at);

-- Runners are claimed in the name of the forges' jobs, by a built-in identity of their own.
INSERT INTO users (id, name, created_at)
  VALUES ('00000000-0000-4000-8000-000000000003', 'forge-jobs', prewarm_now());
INSERT INTO memberships (organization_id, user_id, role)
  VALUES ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000003', 'system');
