-- Why a claim is a miss, as a code beside its words (docs/decisions/0028-reasons-are-codes-beside-their-words.md). Empty in
-- rows of the release before, which goes on writing words only.

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE claims ADD COLUMN reason_code text NOT NULL DEFAULT '';
