-- A stopped entity may have its idle runners retired, and a forge that is not well is left alone by all replicas.

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE forge_entities
  -- When its idle runners were asked to go. It counts while stopped_at is set and not later: a release that knows nothing of
  -- it starts and stops entities while this one runs, and none of its stops drains.
  ADD COLUMN drain_at timestamptz,
  -- Since when it has its credential, where that is not the one that it was made with: what succeeded before says nothing of it.
  ADD COLUMN credential_at timestamptz;
ALTER TABLE forge_status
  -- Until when no runner is registered or unregistered there, and the error that is the reason (P8). Apart from wait_until,
  -- which is of rounds: what a round lacks the permission for says nothing of runners.
  ADD COLUMN runners_wait_until timestamptz,
  ADD COLUMN runners_error text NOT NULL DEFAULT '';
