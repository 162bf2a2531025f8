-- Whether a claim was asked for once more, by a request with its key. Who made it takes it back where its client is gone, but not
-- what somebody else was told of.
--
-- The binary before does not write it, and takes nothing back that has a key. While it is at work nobody does.

-- +goose Up
SET LOCAL lock_timeout = '2s';

ALTER TABLE claims ADD COLUMN asked_again_at timestamptz;
