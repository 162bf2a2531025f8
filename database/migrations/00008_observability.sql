-- What makes the installation observable: the trace that a job belongs to, and the notifications that people are owed.
--
-- The binary before writes jobs without a trace and no notifications, and runs on.

-- +goose Up

-- The W3C trace context of the pass or request that ordered the job, where traces are on. A transaction that is traced
-- says so once (SetTraceparent), and every job that it inserts takes it from there: no statement has to pass it on.
ALTER TABLE jobs ADD COLUMN traceparent text;
ALTER TABLE jobs ALTER COLUMN traceparent SET DEFAULT nullif(current_setting('prewarm.traceparent', true), '');

CREATE TYPE notification_state AS ENUM ('pending', 'delivered', 'abandoned');

-- One row for each episode of something that people are to know of, however many replicas notice it and however long it
-- lasts. A row is delivered at least once; `attempts` is the fencing token of the delivery under way.
CREATE TABLE notifications (
  id              uuid PRIMARY KEY,
  kind            text NOT NULL, -- hard-limit, unattainable, stale, test, …
  subject         text NOT NULL, -- what the episode is about: a preset's id, or the installation
  organization_id uuid,          -- null: of the whole installation
  template        text NOT NULL DEFAULT '',
  preset          text NOT NULL DEFAULT '',
  detail          text NOT NULL, -- for people
  created_at      timestamptz NOT NULL,
  ended_at        timestamptz,   -- of the episode
  state           notification_state NOT NULL DEFAULT 'pending',
  attempts        integer NOT NULL DEFAULT 0,
  due_at          timestamptz NOT NULL, -- of the next attempt, or until when the one under way is waited for
  last_error      text NOT NULL DEFAULT '',
  delivered_at    timestamptz,
  CHECK ((state = 'delivered') = (delivered_at IS NOT NULL))
);
CREATE UNIQUE INDEX notifications_episode ON notifications (kind, subject) WHERE ended_at IS NULL;
CREATE INDEX notifications_due ON notifications (due_at) WHERE state = 'pending';
CREATE INDEX notifications_age ON notifications (created_at);
