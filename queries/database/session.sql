-- What no table belongs to: the time, hints, the trace of a transaction, and the lock of an organization.

-- name: GetNow :one
-- The time as every other query sees it.
SELECT prewarm_now()::timestamptz AS now;

-- name: Notify :exec
-- A hint to whoever listens. NOTIFY takes a global lock at commit, so it is sent alone, after the deed.
SELECT pg_notify(@channel::text, @payload::text);

-- name: LockOrganization :one
-- Serialises what must not run twice at once in an organization: the first start, and applies.
SELECT id, name FROM organizations WHERE id = @id FOR NO KEY UPDATE;

-- name: SetTraceparent :exec
-- Every job that this transaction inserts belongs to that trace (see migration 00008).
SELECT set_config('prewarm.traceparent', @traceparent::text, true);
