-- Claims whose time is over: leases, and places in line.

-- name: EndExpiredWaiting :execrows
-- Waiters whose client is gone, or whose replica died with them: nobody counts them any more; this records the miss. A
-- replica ends the waits of its own clients, and has five seconds for it, since it knows why there was no workspace.
UPDATE claims
SET state = 'missed', outcome = 'miss', reason = 'the wait ended', reason_code = 'wait_ended', idempotency_key = NULL
WHERE state = 'waiting' AND deadline_at < prewarm_now() - interval '5 seconds';

-- name: EndedLeases :many
-- Claims whose lease is over, by their index, those that are over for longest first.
SELECT c.id, c.workspace_id, c.incarnation, c.lease_s FROM claims c
WHERE c.state = 'bound' AND c.lease_until IS NOT NULL AND c.lease_until <= prewarm_now()
ORDER BY c.lease_until
LIMIT @max_claims;
