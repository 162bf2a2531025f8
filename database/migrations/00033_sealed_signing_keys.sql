-- What signs instance tokens is sealed like other secrets.

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- Both null: the key is `secret` itself, as the release before writes it. Else `secret` is of no meaning, and random, since
-- that release would believe what is signed with it.
ALTER TABLE signing_keys ADD COLUMN sealed bytea, ADD COLUMN sealed_by text;
