-- The one way to cancel what is under way on a workspace, for all statements that put another job in its place. It returns when
-- the lease of what was cancelled ends, which its provider call may still use; null where nothing was leased.
--
-- Such a statement locks the workspace first, and may wait there while another puts a job in the place of the one that its own
-- snapshot has. What it then does to jobs must be done on what is there after the wait: in READ COMMITTED each statement of a
-- volatile function has a snapshot of its own.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION prewarm_cancel_job(of_workspace uuid) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
  UPDATE jobs j SET state = 'cancelled', finished_at = prewarm_now()
  WHERE j.workspace_id = of_workspace AND j.state IN ('pending', 'running')
  RETURNING CASE WHEN j.leased_by = '' THEN NULL ELSE j.due_at END
$$;
-- +goose StatementEnd
