-- Claims whose workspaces their providers took away soon after they were claimed. A user who claims such a pool again has the
-- place in line of the first claim.
--
-- The binary before writes none, and lets them stand at the end.

-- +goose Up
CREATE TABLE lost_claims (
  claim_id   uuid PRIMARY KEY,
  user_id    uuid NOT NULL,
  preset_id  uuid NOT NULL,
  created_at timestamptz NOT NULL, -- of the claim: its place in line
  lost_at    timestamptz NOT NULL, -- when that was known
  taken_by   uuid                  -- the claim that has its place, unless that one is a miss or was never made
);
CREATE INDEX lost_claims_user ON lost_claims (user_id, preset_id);
CREATE INDEX lost_claims_age ON lost_claims (lost_at);
