-- What people are told by webhook. An episode is one row from when it is noticed until it is over, so that any number of
-- replicas may notice it any number of times.

-- name: OpenEpisode :execrows
-- Nothing happens if the episode is known already.
INSERT INTO notifications (id, kind, subject, organization_id, template, preset, detail, created_at, due_at)
VALUES (@id, @kind, @subject, sqlc.narg(organization_id), @template, @preset, @detail, prewarm_now(), prewarm_now())
ON CONFLICT (kind, subject) WHERE ended_at IS NULL DO NOTHING;

-- name: EndEpisodes :many
-- Those of one kind that are no longer so. Where the same comes again, it is another episode. A young one is left alone:
-- who asks may have looked before it began.
UPDATE notifications SET ended_at = prewarm_now()
WHERE kind = @kind AND ended_at IS NULL AND created_at < prewarm_now() - interval '30 seconds'
  AND NOT subject = ANY (@still::text[])
RETURNING id, subject, template, preset;

-- name: LeaseNotifications :many
-- Takes what is due for one attempt, until when nobody else tries it. What could not be told for a day is old news.
WITH due AS (
  SELECT n.id FROM notifications n
  WHERE n.state = 'pending' AND n.due_at <= prewarm_now()
    AND n.created_at > prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
  ORDER BY n.due_at LIMIT @batch
  FOR UPDATE SKIP LOCKED
)
UPDATE notifications n
SET attempts = n.attempts + 1, due_at = prewarm_now() + sqlc.arg(lease_s)::double precision * interval '1 second'
FROM due
WHERE n.id = due.id
RETURNING n.*;

-- name: NotificationDelivered :execrows
UPDATE notifications
SET state = 'delivered', delivered_at = prewarm_now(), last_error = ''
WHERE id = @id AND attempts = @attempts AND state = 'pending';

-- name: NotificationFailed :execrows
UPDATE notifications
SET last_error = @last_error, due_at = prewarm_now() + sqlc.arg(backoff_s)::double precision * interval '1 second'
WHERE id = @id AND attempts = @attempts AND state = 'pending';

-- name: AbandonNotifications :many
UPDATE notifications SET state = 'abandoned'
WHERE state = 'pending' AND due_at <= prewarm_now()
  AND created_at <= prewarm_now() - sqlc.arg(keep_s)::double precision * interval '1 second'
RETURNING id, kind, last_error;

-- name: NotificationByID :one
SELECT * FROM notifications WHERE id = @id;

-- name: EndEpisode :exec
UPDATE notifications SET ended_at = prewarm_now() WHERE id = @id AND ended_at IS NULL;
