-- Failed prebuilds that are kept for inspection, and workspaces that serve one claim after another.
--
-- The binary before knows none of this and runs on: it keeps no failures, releases what is claimed for good, and leaves
-- reset jobs to replicas that know them. What it makes and changes has the defaults below.

-- +goose Up

-- Settings of templates, not of their versions: they change nothing about what a workspace is. Of each preset so many
-- failed prebuilds are kept, for so long. A workspace serves so many claims before it is deleted; 1 is no reuse.
ALTER TABLE templates
  ADD COLUMN keep_failures   integer NOT NULL DEFAULT 0 CHECK (keep_failures >= 0),
  ADD COLUMN keep_failures_s integer NOT NULL DEFAULT 86400 CHECK (keep_failures_s > 0),
  ADD COLUMN max_uses        integer NOT NULL DEFAULT 1 CHECK (max_uses > 0);

ALTER TYPE job_kind ADD VALUE 'reset';

-- What the provider had of the output of a workspace when it failed: the evidence beside its fault.
CREATE TABLE failure_logs (
  workspace_id uuid PRIMARY KEY REFERENCES workspaces (id) ON DELETE CASCADE,
  log          text NOT NULL,
  created_at   timestamptz NOT NULL
);

-- `expires_at` of a quarantined workspace is the end of its keeping. Whoever looks for those reads no others.
CREATE INDEX workspaces_quarantined ON workspaces (expires_at) WHERE state = 'quarantined';

-- When the streak last grew. Failures of what was begun before that are of the same trouble and do not count again: an
-- outage in which ten creates fail at once is one failure (C8). Null: not since this column is there.
ALTER TABLE preset_failures ADD COLUMN counted_at timestamptz;

-- How often a workspace came back into its pool outside of a pass. Whoever brings one back writes this, so that a pass
-- which overlaps fails on its fence and runs again on what is true then.
ALTER TABLE reconcile_fence ADD COLUMN returns bigint NOT NULL DEFAULT 0;
