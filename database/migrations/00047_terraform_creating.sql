-- What an apply may have made that no state names: Terraform stores a state after it has made things, and may be killed between
-- the two.
--
-- The binary before neither reads nor writes it. A state that it stores for an apply of this one leaves addresses in it that the
-- state names: where that apply is cut off too, a person is told to look at too many of them.

-- +goose Up
SET LOCAL lock_timeout = '2s';

-- Addresses of the apply that is under way, as far as no state has named them yet. Where none is under way, it was cut off. Null:
-- there are none.
ALTER TABLE terraform_runs ADD COLUMN creating text[] CHECK (cardinality(creating) > 0);
