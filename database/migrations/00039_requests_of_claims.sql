-- Claims by count are one request each in what people see of hits.
--
-- The binary before leaves the new columns as they are: a bucket that only it counted has none, and is read as one request for
-- each claim, as it was.

-- +goose Up
SET LOCAL lock_timeout = '10s';

-- How many requests the claims of a bucket were, and how many of those were hits. One request with a count is as many claims,
-- which autosize needs: each takes a workspace. Null: not counted.
ALTER TABLE claim_history ADD COLUMN requests integer, ADD COLUMN request_hits integer;
