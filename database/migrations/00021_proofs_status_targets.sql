-- Ages by which proofs of pools are purged, the order in which screens read what passes wrote, and why a pool that is sized
-- by autosize does not reach its target (docs/decisions/0019-when-a-target-is-out-of-reach.md).
--
-- The binary before knows none of this and runs on.

-- +goose Up
SET LOCAL lock_timeout = '10s';

-- Invalidations and new versions leave a proof behind each, and nothing ever deleted them.
CREATE INDEX pool_proofs_age ON pool_proofs (ready_at);

-- Every replica with a screen open asks once or more in a second for what is new since a pass, and for the newest: without
-- this, that reads the status of all presets. It makes updates of a status a little dearer; those happen where something
-- changed, and in the pass alone.
CREATE INDEX preset_status_pass ON preset_status (pass_seq);

-- What keeps the pool from its target, in a sentence for people; empty while nothing does.
ALTER TABLE preset_sizes ADD COLUMN unattainable text NOT NULL DEFAULT '';
