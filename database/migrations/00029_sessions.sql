-- Sessions of browsers have a secret of their own, and tokens know which token they were made with, so that both end with it.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE sessions (
  id         uuid PRIMARY KEY,
  token_id   uuid NOT NULL REFERENCES tokens (id) ON DELETE CASCADE, -- whom it speaks for, and with which it ends
  hash       bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32), -- SHA-256 of what the browser has
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_token ON sessions (token_id);
CREATE INDEX sessions_expired ON sessions (expires_at);
-- Null: made by a server at its start, or by the release before.
ALTER TABLE tokens ADD COLUMN made_with uuid REFERENCES tokens (id);
CREATE INDEX tokens_made_with ON tokens (made_with) WHERE made_with IS NOT NULL;
