-- What people ask of a claim beyond one warm workspace: one built anew, several at once, secrets, a lease, a quota.
--
-- The binary before knows none of this and runs on. It binds a waiting claim that is one of several as if it stood alone,
-- and one that wants a fresh workspace to whichever is ready; it ends no leases and heeds no quotas.

-- +goose Up
SET LOCAL lock_timeout = '10s';

ALTER TYPE claim_mode ADD VALUE 'bypass';
ALTER TYPE claim_outcome ADD VALUE 'cold';

ALTER TABLE claims
  -- Of a waiting one: only a workspace that was planned after it will do.
  ADD COLUMN cold boolean NOT NULL DEFAULT false,
  -- Claims that are one request share the id of the first of them, which has the key; null: a claim on its own.
  ADD COLUMN group_id uuid,
  -- For how long it was asked for, by the request or by the template, and when it ends unless it is renewed; null: never.
  ADD COLUMN lease_s integer CHECK (lease_s > 0),
  ADD COLUMN lease_until timestamptz;
CREATE INDEX claims_cold ON claims (preset_id, created_at) WHERE state = 'waiting' AND cold;
CREATE INDEX claims_group ON claims (group_id, id) WHERE group_id IS NOT NULL;
CREATE INDEX claims_lease ON claims (lease_until) WHERE state = 'bound' AND lease_until IS NOT NULL;
-- Written at a release and not at a claim.
CREATE INDEX claims_keyed ON claims (released_at) WHERE state = 'released' AND idempotency_key IS NOT NULL;

-- Kept until the agent has written them down in the workspace, and then wiped.
ALTER TABLE claim_parameters ADD COLUMN secrets jsonb;
CREATE INDEX claim_parameters_secret ON claim_parameters (created_at) WHERE secrets IS NOT NULL;

ALTER TABLE templates
  ADD COLUMN claim_lease_s integer CHECK (claim_lease_s > 0), -- of claims that ask for none; null: they have none
  ADD COLUMN max_claimed integer CHECK (max_claimed > 0),     -- workspaces of it that may be claimed at once; null: any
  ADD COLUMN max_claimed_per_user integer CHECK (max_claimed_per_user > 0);
-- The same over all templates of an organization.
ALTER TABLE organizations
  ADD COLUMN max_claimed integer CHECK (max_claimed > 0),
  ADD COLUMN max_claimed_per_user integer CHECK (max_claimed_per_user > 0);
-- Whether any of these four holds for the preset, so that a claim's statement need not look for them. The database keeps
-- it true, whoever changes what it follows from.
ALTER TABLE presets ADD COLUMN metered boolean NOT NULL DEFAULT false;

-- +goose StatementBegin
CREATE FUNCTION presets_metered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE presets p SET metered = NOT p.metered
  FROM templates t JOIN organizations o ON o.id = t.organization_id
  WHERE p.template_id = t.id
    AND CASE TG_TABLE_NAME WHEN 'templates' THEN t.id = NEW.id WHEN 'presets' THEN p.id = NEW.id ELSE o.id = NEW.id END
    AND p.metered <> (num_nonnulls(t.max_claimed, t.max_claimed_per_user, o.max_claimed, o.max_claimed_per_user) > 0);
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER presets_metered AFTER INSERT ON presets FOR EACH ROW EXECUTE FUNCTION presets_metered();
CREATE TRIGGER templates_metered AFTER UPDATE OF max_claimed, max_claimed_per_user ON templates
  FOR EACH ROW EXECUTE FUNCTION presets_metered();
CREATE TRIGGER organizations_metered AFTER UPDATE OF max_claimed, max_claimed_per_user ON organizations
  FOR EACH ROW EXECUTE FUNCTION presets_metered();
