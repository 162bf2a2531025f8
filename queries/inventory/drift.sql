-- Looks for drift: whether a workspace still is as it was made (coderd/inventory/drift.go).

-- name: BeginDriftLook :many
-- The workspace of a provider that was not looked at for longest, if that is so long ago, and nobody is at work on it. Of two
-- replicas that find the same one, the second gets no row. What an incarnation before came to is forgotten.
WITH due AS (
  SELECT w.id, w.incarnation, w.name, w.provider_id
  FROM workspaces w
  LEFT JOIN workspace_drift d ON d.workspace_id = w.id AND d.incarnation = w.incarnation
  WHERE w.id IN (
      SELECT c.id FROM workspaces c WHERE c.provider = @provider AND c.state = 'claimed'
      UNION ALL
      SELECT u.id FROM workspaces u WHERE u.provider = @provider AND u.state = 'ready')
    AND coalesce(d.begun_at, w.created_at) <= prewarm_now() - sqlc.arg(every_s)::double precision * interval '1 second'
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.workspace_id = w.id AND j.state IN ('pending', 'running'))
  ORDER BY coalesce(d.begun_at, w.created_at), w.id
  LIMIT 1
), begun AS (
  INSERT INTO workspace_drift AS d (workspace_id, incarnation, begun_at)
  SELECT due.id, due.incarnation, prewarm_now() FROM due
  ON CONFLICT (workspace_id) DO UPDATE
    SET incarnation = excluded.incarnation, begun_at = excluded.begun_at,
        looked_at = CASE WHEN d.incarnation = excluded.incarnation THEN d.looked_at END,
        resources = CASE WHEN d.incarnation = excluded.incarnation THEN d.resources ELSE '{}' END,
        error = CASE WHEN d.incarnation = excluded.incarnation THEN d.error ELSE '' END
    WHERE d.incarnation <> excluded.incarnation
       OR d.begun_at <= excluded.begun_at - sqlc.arg(every_s)::double precision * interval '1 second'
  RETURNING d.workspace_id, d.begun_at
)
SELECT due.id, due.name, due.provider_id, begun.begun_at FROM due JOIN begun ON begun.workspace_id = due.id;

-- name: EndDriftLook :exec
-- What a look found, if the workspace is as it was when the look began. What a job did meanwhile would pass for drift. An error
-- leaves what was found before.
UPDATE workspace_drift d
SET looked_at = CASE WHEN @error::text = '' THEN prewarm_now() ELSE d.looked_at END,
    resources = CASE WHEN @error::text = '' THEN @resources::text[] ELSE d.resources END, error = @error::text
WHERE d.workspace_id = @workspace_id AND d.begun_at = @begun_at
  AND EXISTS (SELECT FROM workspaces w WHERE w.id = d.workspace_id AND w.incarnation = d.incarnation AND w.state IN ('ready', 'claimed'))
  AND NOT EXISTS (SELECT FROM jobs j
                  WHERE j.workspace_id = d.workspace_id AND (j.state IN ('pending', 'running') OR j.finished_at >= d.begun_at));
