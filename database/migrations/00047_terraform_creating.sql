-- What an apply may have made that no state names: Terraform stores a state after it has made things, and may be killed between
-- the two.
--
-- The binary before neither reads nor writes it. A state that it stores for an apply of this one takes no address away: the end of
-- the apply does, or a person looks for too many.

-- +goose Up
SET LOCAL lock_timeout = '2s';

-- Addresses of the apply that is under way, as far as no state has named them yet. Where none is under way, it was cut off. Null:
-- there are none.
ALTER TABLE terraform_runs
  ADD COLUMN creating    text[] CHECK (cardinality(creating) > 0),
  ADD COLUMN creating_at timestamptz, -- when the latest apply began; what has no workspace is forgotten by it
  ADD CHECK (creating IS NULL OR creating_at IS NOT NULL);
