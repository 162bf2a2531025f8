-- What pools looked like over time, for the charts of the web UI and of whoever asks for a preset's history
-- (docs/decisions/0020-samples-of-pools.md).
--
-- The binary before knows none of this and runs on.

-- +goose Up
SET LOCAL lock_timeout = '10s';

-- A row holds from its bucket until the next one of its preset: one is written where something changed, and once an hour, by
-- one replica at a time in one statement for all presets, every five minutes. No foreign key: rows of a preset that is gone
-- go by age. Counts are those that the last pass over the preset stored (C3); claimed ones are counted.
CREATE TABLE preset_samples (
  preset_id uuid NOT NULL,
  bucket    timestamptz NOT NULL, -- when it begins
  desired   integer NOT NULL,
  ready     integer NOT NULL, -- actual: what may be claimed, standby included
  starting  integer NOT NULL, -- provisioning and starting
  claimed   integer NOT NULL,
  PRIMARY KEY (preset_id, bucket)
);
CREATE INDEX preset_samples_age ON preset_samples (bucket);

-- How far samples are taken.
ALTER TABLE autosize_progress ADD COLUMN sampled_at timestamptz;

-- How long states usually last is asked by preset, of the latest that are gone. Only a deletion pays for it.
CREATE INDEX workspaces_deleted_of ON workspaces (preset_id, deleted_at) WHERE state = 'deleted';
