-- Parameters of claims.

-- name: InsertClaimParameters :exec
-- Before the claim itself, so that whoever sees the claim finds them.
INSERT INTO claim_parameters (claim_id, parameters, secrets, created_at)
VALUES (@claim_id, @parameters, sqlc.narg(secrets), prewarm_now());

-- name: DropUnclaimedParameters :exec
-- Of claims that came to nothing; those that wait or hold a workspace keep theirs.
DELETE FROM claim_parameters p
WHERE p.claim_id = ANY (@claim_ids::uuid[])
  AND NOT EXISTS (SELECT FROM claims c WHERE c.id = p.claim_id AND c.state IN ('waiting', 'bound'));
