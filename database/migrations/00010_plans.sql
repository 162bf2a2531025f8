-- Plans that people look at before they apply a file. What a plan depended on is kept with it, so that an apply of it can
-- be refused when something of that has moved.

-- +goose Up
SET LOCAL lock_timeout = '10s';

CREATE TABLE plans (
  id              uuid PRIMARY KEY,
  organization_id uuid NOT NULL REFERENCES organizations (id),
  created_by      uuid NOT NULL REFERENCES users (id),
  created_at      timestamptz NOT NULL,
  expires_at      timestamptz NOT NULL CHECK (expires_at > created_at),
  file            text NOT NULL, -- its name
  document        text,          -- its content; null: a plan of the state as it was
  basis           jsonb NOT NULL -- the changes to the configuration, and what was planned for each pool that they touch
);
CREATE INDEX plans_latest ON plans (organization_id, created_at DESC, id);
CREATE INDEX plans_age ON plans (expires_at);
