-- Providers whose machines exist beforehand (S2, S4): what is known of each machine, and for which workspace it is reserved.
--
-- The binary before knows none of this and runs on: it has no such provider, and reads a preset that takes all machines as
-- one of 0 instances.

-- +goose Up
SET LOCAL lock_timeout = '10s';

ALTER TABLE providers
  ADD COLUMN reserves boolean NOT NULL DEFAULT false, -- its machines exist beforehand; set when they are listed first
  ADD COLUMN machines_begun_at timestamptz,  -- when the last listing began, by whichever replica; null: one is due
  ADD COLUMN machines_listed_at timestamptz; -- when the last one began that came to its end; older ones are stale

ALTER TABLE presets
  ADD COLUMN all_machines boolean NOT NULL DEFAULT false; -- `instances: all`; instances is 0 then

-- One row for each machine of each such provider. The row is the reservation: one workspace at most, by the column, and one
-- machine at most for each workspace, by the index. No foreign key to workspaces: those are purged by age, and a machine
-- that could never be reset outlives them.
CREATE TABLE provider_machines (
  provider     text NOT NULL REFERENCES providers (name),
  machine      text COLLATE "C" NOT NULL, -- the provider's id of it, opaque
  address      text NOT NULL DEFAULT '',
  state        text NOT NULL CHECK (state IN ('used', 'unused', 'possibly_used')),
  error        text NOT NULL DEFAULT '',
  holder       text NOT NULL DEFAULT '', -- the workspace that it says it is used by, of whatever installation
  seen_at      timestamptz, -- when it answered last
  workspace_id uuid UNIQUE,
  reserved_at  timestamptz,
  changed_at   timestamptz NOT NULL, -- when it was reserved or given back: a listing begun before knows less
  failures     integer NOT NULL DEFAULT 0 CHECK (failures >= 0), -- in a row, of workspaces on it
  retry_at     timestamptz, -- not reserved before
  PRIMARY KEY (provider, machine),
  CHECK ((workspace_id IS NULL) = (reserved_at IS NULL))
);
