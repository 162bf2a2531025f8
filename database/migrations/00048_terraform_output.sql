-- What Terraform says of each workspace, without secrets: its end, in pieces as they came.
--
-- It goes with the row of the run. That row is no claim's, so that a foreign key is in nobody's way. The binary before does not know
-- the table.

-- +goose Up
SET LOCAL lock_timeout = '2s';

CREATE TABLE terraform_output (
  workspace_id uuid NOT NULL REFERENCES terraform_runs ON DELETE CASCADE,
  seq          bigint NOT NULL, -- grows within a workspace
  chunk        text NOT NULL CHECK (octet_length(chunk) BETWEEN 1 AND 262144),
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, seq)
);
