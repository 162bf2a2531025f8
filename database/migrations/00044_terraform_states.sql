-- States of Terraform: sealed, versioned, and written by one run at a time.
--
-- A state has up to 64 MiB. It has a table of its own, so that no statement of the hot path reads past it, and is stored
-- out of line without compression: sealed bytes do not compress. Neither table has a foreign key: a check would lock rows
-- that claims take. Retention deletes what is left of workspaces that are gone.
--
-- The binary before neither reads nor writes the tables.

-- +goose Up
SET LOCAL lock_timeout = '10s';

-- The newest run of each workspace, and the lock that it holds.
CREATE TABLE terraform_runs (
  workspace_id uuid PRIMARY KEY,
  incarnation  integer NOT NULL,
  job_id       uuid NOT NULL, -- with the attempt: the fence. Nothing is written once either is over
  attempt      integer NOT NULL,
  token_hash   bytea NOT NULL CHECK (octet_length(token_hash) = 32),
  lock_id      text CHECK (length(lock_id) BETWEEN 1 AND 200), -- Terraform's; null: not locked
  lock_info    jsonb, -- what Terraform shows to whoever finds it locked
  created_at   timestamptz NOT NULL,
  CHECK ((lock_id IS NULL) = (lock_info IS NULL))
);

CREATE TABLE terraform_states (
  workspace_id uuid NOT NULL,
  version      bigint NOT NULL, -- from 1, for each workspace
  incarnation  integer NOT NULL, -- that wrote it
  lineage      text NOT NULL, -- this and the next as in the state
  serial       bigint NOT NULL,
  sealed       bytea NOT NULL,
  sealed_by    text NOT NULL, -- the encryption key
  size         integer NOT NULL CHECK (size BETWEEN 1 AND 67108864), -- in bytes, unsealed
  md5          bytea NOT NULL CHECK (octet_length(md5) = 16), -- of what was unsealed; part of the protocol
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, version)
);
ALTER TABLE terraform_states ALTER COLUMN sealed SET STORAGE EXTERNAL;
CREATE INDEX terraform_states_key ON terraform_states (sealed_by);
