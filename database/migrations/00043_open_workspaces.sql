-- What an owner allows the templates of a provider: that others enter claimed workspaces, and that anybody reaches ports of
-- them. Times and not booleans, so that a claim costs nothing: what was allowed after a claim was made never reaches it, also
-- where it had been allowed before.
--
-- The binary before neither reads nor writes the columns, and lets nobody in but the user of a claim. It refuses a file with
-- the settings.

-- +goose Up
SET LOCAL lock_timeout = '10s';

ALTER TABLE providers
  ADD COLUMN enter_allowed_at        timestamptz, -- since when; null: not
  ADD COLUMN public_ports_allowed_at timestamptz;
