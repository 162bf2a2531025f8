-- The standby tier: prebuilds that are built, stopped on purpose, and started when they are claimed.
--
-- The binary before knows none of this and runs on: it counts what is in standby as actual, hands it to nobody, and leaves
-- jobs and moves of the tier to replicas that know them.

-- +goose Up
SET LOCAL lock_timeout = '10s';

ALTER TYPE job_kind ADD VALUE 'stop';
ALTER TYPE job_kind ADD VALUE 'start';

-- How many of the preset's prebuilds are kept running, a number or per cent of desired; the others are stopped. Null: it has
-- no standby tier, and all run.
ALTER TABLE presets ADD COLUMN standby_running text;

-- What a stopped prebuild of the template costs in an hour. Null: as much as an idle one that runs.
ALTER TABLE templates ADD COLUMN stopped_cost_per_hour double precision
  CHECK (stopped_cost_per_hour >= 0 AND stopped_cost_per_hour < 'Infinity');

-- Whether the claim took its workspace out of standby, and had to have it started.
ALTER TABLE claims ADD COLUMN from_standby boolean NOT NULL DEFAULT false;

-- What a pass wants of a prebuild between the tiers; a worker carries it out unless a claim or a drain came first. Like
-- intents without foreign keys and inserted only by passes. A table of its own, because it takes nothing away: what is to
-- be stopped or started still counts, and may get an intent beside it. And the binary before, which takes every intent that
-- it does not know for one to drain, does not see it.
CREATE TYPE standby_move_kind AS ENUM ('stop', 'start');
CREATE TABLE standby_moves (
  workspace_id uuid NOT NULL,
  incarnation  integer NOT NULL,
  kind         standby_move_kind NOT NULL,
  reason       text NOT NULL,
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, incarnation)
);
CREATE INDEX standby_moves_age ON standby_moves (created_at);

-- A claim that finds nothing ready reads this: what was stopped longest ago first, for its stop is over.
CREATE INDEX workspaces_standby ON workspaces (preset_id, pool_key, state_at, id) WHERE state = 'standby';
