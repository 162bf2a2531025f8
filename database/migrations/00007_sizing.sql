-- Sizes by history: what was claimed and when, what autosize made of it, and what idleness costs.
--
-- The binary before knows none of this and runs on: it reads `instances` alone, and its applies leave `autosize` as it is.

-- +goose Up
SET LOCAL lock_timeout = '10s';

-- What an idle prebuild of the template costs in an hour, in whatever money the reader thinks in; 0: not said.
ALTER TABLE templates ADD COLUMN idle_cost_per_hour double precision NOT NULL DEFAULT 0
  CHECK (idle_cost_per_hour >= 0 AND idle_cost_per_hour < 'Infinity');

-- {"mode": "apply", "min": 1, "max": 40, "target": 0.99, "timezone": "UTC"}. Null: off.
ALTER TABLE presets ADD COLUMN autosize jsonb;

-- Claims and provisions in buckets of five minutes, empty ones left out. Counted again and again from claims and history by
-- one replica at a time while they may still change, so that a claim's statement has nothing more to do. No foreign key: rows
-- of a preset that is gone go by age.
CREATE TABLE claim_history (
  preset_id   uuid NOT NULL,
  bucket      timestamptz NOT NULL, -- when it begins
  claims      integer NOT NULL DEFAULT 0,
  hits        integer NOT NULL DEFAULT 0,
  provisions  integer NOT NULL DEFAULT 0, -- workspaces that became ready
  provision_s double precision NOT NULL DEFAULT 0, -- which took, together, from the decision to build them
  PRIMARY KEY (preset_id, bucket)
);
CREATE INDEX claim_history_age ON claim_history (bucket);

-- What autosize recommends for a preset; what it remembers from one step to the next is in `state`. A size that is not
-- renewed is not used any more, and `instances` are.
CREATE TABLE preset_sizes (
  preset_id   uuid PRIMARY KEY,
  size        integer NOT NULL CHECK (size >= 0),
  forecast    integer NOT NULL,
  recent      integer NOT NULL,
  boost       double precision NOT NULL,
  reason      text NOT NULL,
  state       jsonb NOT NULL,
  computed_at timestamptz NOT NULL
);

-- One row: how far claims are counted, and when sizes were computed last.
CREATE TABLE autosize_progress (
  only_row        boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  counted_through timestamptz,
  computed_at     timestamptz
);
INSERT INTO autosize_progress DEFAULT VALUES;
