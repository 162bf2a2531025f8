-- The inbox: webhooks' deliveries as they came (P2).

-- name: InsertDelivery :execrows
-- The one statement of a webhook. No row: it has come before.
INSERT INTO forge_deliveries (entity_id, delivery_id, event, body, fetched, received_at, due_at)
VALUES (@entity_id, @delivery_id, @event, @body, @fetched, prewarm_now(), prewarm_now())
ON CONFLICT (entity_id, delivery_id) DO NOTHING;

-- name: LeaseDeliveries :many
-- Takes up to max_deliveries that are due, or whose lease is over, in the order in which they became so.
UPDATE forge_deliveries d
SET leased_by = @replica, attempts = d.attempts + 1,
    due_at = prewarm_now() + sqlc.arg(lease_s)::double precision * interval '1 second'
WHERE d.id = ANY (ARRAY(
  SELECT o.id FROM forge_deliveries o
  WHERE o.handled_at IS NULL AND o.due_at <= prewarm_now()
  ORDER BY o.due_at, o.id
  LIMIT @max_deliveries
  FOR UPDATE SKIP LOCKED))
RETURNING d.id, d.entity_id, d.delivery_id, d.event, d.body, d.attempts;

-- name: HandleDeliveries :execrows
-- Those that are still leased as they were; what another replica took over is its own.
UPDATE forge_deliveries d
SET handled_at = prewarm_now(), outcome = h.outcome, leased_by = ''
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@attempts::integer[]) AS attempts, unnest(@outcomes::text[]) AS outcome) h
WHERE d.id = h.id AND d.attempts = h.attempts AND d.leased_by = @replica AND d.handled_at IS NULL;

-- name: ReturnDelivery :exec
-- Handling it failed: again after a while, for why.
UPDATE forge_deliveries
SET leased_by = '', outcome = @outcome, due_at = prewarm_now() + sqlc.arg(after_s)::double precision * interval '1 second'
WHERE id = @id AND attempts = @attempts AND leased_by = @replica AND handled_at IS NULL;

-- name: DeliveriesKnown :many
-- Of these, the ones that came.
SELECT delivery_id FROM forge_deliveries WHERE entity_id = @entity_id AND delivery_id = ANY (@delivery_ids::text[]);

-- name: DeliveryProgress :one
-- From where an entity's webhook is to be looked through for what was missed. The forge keeps deliveries for a few days.
SELECT e.hook_id, prewarm_now()::timestamptz AS now,
       greatest(coalesce(s.deliveries_through, e.created_at) - interval '10 minutes',
                prewarm_now() - interval '3 days')::timestamptz AS since
FROM forge_entities e
LEFT JOIN forge_status s ON s.entity_id = e.id
WHERE e.id = @entity_id AND e.deleted_at IS NULL;

-- name: StoreDeliveryProgress :exec
INSERT INTO forge_status (entity_id, deliveries_through) VALUES (@entity_id, sqlc.arg(through)::timestamptz)
ON CONFLICT (entity_id) DO UPDATE SET deliveries_through = excluded.deliveries_through;
