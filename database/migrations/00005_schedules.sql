-- Schedules and lifetimes (C9).
--
-- The binary before ignores all of it: it writes none of these columns, and their defaults are what it does, but for the
-- jitter, which only shortens the lifetimes that the binary after it gives.

-- +goose Up
SET LOCAL lock_timeout = '10s';

ALTER TABLE presets
  -- {"timezone": "Europe/Berlin", "ranges": [{"cron": "* 8-18 * * 1-5", "instances": 5}]}; null: no schedule.
  ADD COLUMN schedule jsonb,
  -- Per cent of the TTL by which each prebuild lives for less, each by another part of it.
  ADD COLUMN ttl_jitter integer NOT NULL DEFAULT 10 CHECK (ttl_jitter BETWEEN 0 AND 50),
  -- What a claim must find left of the TTL.
  ADD COLUMN min_remaining_s bigint NOT NULL DEFAULT 0 CHECK (min_remaining_s >= 0);
