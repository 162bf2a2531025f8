-- What a provider reads of the states of many workspaces, without the states; what it destroys them with; and runs of checks, which
-- have no job.
--
-- The binary before writes states without summaries, and reads none: no provider of it has states.

-- +goose Up
SET LOCAL lock_timeout = '2s';

-- Sealed with the state's key: its outputs, and how many resources it has. Null: it is not known, and nothing is.
ALTER TABLE terraform_states ADD COLUMN summary bytea;

ALTER TABLE terraform_runs
  ADD COLUMN name        text NOT NULL DEFAULT '', -- of the workspace; checks have none in workspaces
  ADD COLUMN check_until timestamptz, -- of a check: until then its token is good; null: the job's attempt says
  -- What a workspace was made with, sealed, since destroying needs it too; null until its first create.
  ADD COLUMN module      bytea,
  ADD COLUMN sealed_by   text, -- the module's encryption key
  ALTER COLUMN module SET STORAGE EXTERNAL,
  ADD CHECK ((module IS NULL) = (sealed_by IS NULL)),
  ALTER COLUMN job_id DROP NOT NULL,
  ALTER COLUMN attempt DROP NOT NULL,
  ADD CHECK ((check_until IS NULL) = (job_id IS NOT NULL));
CREATE INDEX terraform_runs_name ON terraform_runs (name);
