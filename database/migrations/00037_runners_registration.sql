-- What runners need to register: a time of their own for it (A3), and one configuration in files that are read one by one.

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- How long a runner of the preset may take from being up to being seen at its forge.
ALTER TABLE presets ADD COLUMN runner_registration_timeout_s integer NOT NULL DEFAULT 600
  CHECK (runner_registration_timeout_s > 0);
ALTER TABLE forge_runners
  -- When it was first found to be up: all but the forge says that it is ready. Its time to register runs from here. One of
  -- before its workspace began to start says nothing.
  ADD COLUMN up_at timestamptz,
  -- The files of its just-in-time configuration that were not read yet, sealed; null: there are none, or all were read.
  ADD COLUMN files bytea,
  ADD COLUMN files_sealed_by text,
  -- The names of those that were read, each once.
  ADD COLUMN files_read text[] NOT NULL DEFAULT '{}';
CREATE INDEX forge_runners_files ON forge_runners (handed_out_at) WHERE files IS NOT NULL;
