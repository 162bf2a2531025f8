-- What a look at a workspace found that differs from what made it, at the place itself.
--
-- The binary before neither looks nor shows it.

-- +goose Up
CREATE TABLE workspace_drift (
  workspace_id uuid PRIMARY KEY REFERENCES workspaces (id) ON DELETE CASCADE,
  incarnation  integer NOT NULL,
  begun_at     timestamptz NOT NULL, -- when the last look began: the next is due by it
  looked_at    timestamptz, -- when the last one ended that found out
  resources    text[] NOT NULL DEFAULT '{}', -- addresses of what was changed or removed
  error        text NOT NULL DEFAULT '' -- why the last look found nothing out
);
