-- Rollouts (C7) and the failure policy (C8).
--
-- The binary before knows none of this. It says of each template whether it keeps outdated ones, so the new default is
-- not for it; it counts every failure to the streak, and knows no failures that may pass; and its rollouts count as new
-- ones all the same, since the database itself notes when a pool became another.

-- +goose Up
SET LOCAL lock_timeout = '10s';

ALTER TABLE templates ALTER COLUMN keep_outdated SET DEFAULT true;
ALTER TABLE templates
  -- Numbers or per cent of desired. How many more than desired there may be while a version replaces another, and how
  -- many fewer may be ready through our own doing; empty: none, but one where a maximum leaves no room beside the old.
  ADD COLUMN max_surge text NOT NULL DEFAULT '100%' CHECK (max_surge ~ '^[0-9]+%?$'),
  ADD COLUMN max_unavailable text NOT NULL DEFAULT '' CHECK (max_unavailable ~ '^([0-9]+%?)?$'),
  -- By when the first prebuild of a version must be ready.
  ADD COLUMN progress_deadline_s integer NOT NULL DEFAULT 3600 CHECK (progress_deadline_s > 0),
  ADD COLUMN creates_in_flight integer CHECK (creates_in_flight > 0), -- null: no limit of its own
  ADD COLUMN previous_version_id uuid REFERENCES template_versions (id); -- where a rollback goes

ALTER TABLE presets
  ADD COLUMN creates_in_flight integer CHECK (creates_in_flight > 0), -- null: no limit of its own
  -- Since when the pool is what it is now, or since when people asked to try anew.
  ADD COLUMN rollout_at timestamptz NOT NULL DEFAULT prewarm_now();

-- +goose StatementBegin
CREATE FUNCTION presets_rollout() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.rollout_at := prewarm_now();
  RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER presets_rollout BEFORE UPDATE OF pool_key ON presets
  FOR EACH ROW WHEN (OLD.pool_key <> NEW.pool_key) EXECUTE FUNCTION presets_rollout();

-- Pools of which a prebuild became ready once: their version can be built. Written at the first one only.
CREATE TABLE pool_proofs (
  preset_id uuid NOT NULL,
  pool_key  uuid NOT NULL,
  ready_at  timestamptz NOT NULL,
  PRIMARY KEY (preset_id, pool_key)
);
INSERT INTO pool_proofs (preset_id, pool_key, ready_at)
  SELECT id, pool_key, prewarm_now() FROM presets WHERE deleted_at IS NULL; -- those before are not doubted

-- The hard limit is for failures that a retry cannot mend, and for those that have gone on for long.
ALTER TABLE preset_failures
  ADD COLUMN permanent integer NOT NULL DEFAULT 0, -- of the streak, those that a retry cannot mend
  ADD COLUMN first_at timestamptz NOT NULL DEFAULT prewarm_now();
UPDATE preset_failures SET permanent = streak, first_at = last_at;

-- Why creates failed, grouped: `cause` is the fault without names, ids and numbers.
CREATE TABLE preset_failure_causes (
  preset_id      uuid NOT NULL REFERENCES presets (id),
  cause          text NOT NULL,
  count          bigint NOT NULL,
  permanent      boolean NOT NULL,
  first_at       timestamptz NOT NULL,
  last_at        timestamptz NOT NULL,
  last_fault     text NOT NULL,
  last_workspace text NOT NULL,
  last_version   integer NOT NULL,
  PRIMARY KEY (preset_id, cause)
);
CREATE INDEX preset_failure_causes_age ON preset_failure_causes (last_at);
