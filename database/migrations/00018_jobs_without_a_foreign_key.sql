-- The foreign key from jobs to workspaces goes (docs/decisions/0018-jobs-without-a-foreign-key.md).
--
-- It looked up and share-locked the workspace of each new job: a sixth of what a pass spends on creating prebuilds, and a
-- record of the log for each. Every statement that writes a job has that workspace in its hands: it inserts it, or holds its
-- lock. What the key did on deletion a trigger does, so that whoever deletes a workspace, the binary before included,
-- leaves no jobs behind. Tests look for jobs without a workspace at the end of every run (dbtest.CheckReferences).

-- +goose Up
SET LOCAL lock_timeout = '10s';

-- +goose StatementBegin
CREATE FUNCTION workspaces_take_their_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM jobs WHERE workspace_id = OLD.id;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER workspaces_take_their_jobs AFTER DELETE ON workspaces
  FOR EACH ROW EXECUTE FUNCTION workspaces_take_their_jobs();

ALTER TABLE jobs DROP CONSTRAINT jobs_workspace_id_fkey;
