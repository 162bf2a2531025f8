-- How many claims of a user wait is counted with each that is to wait too.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE INDEX claims_waiting_user ON claims (user_id) WHERE state = 'waiting';
