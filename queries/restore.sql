-- Where a database is at home, and what a database that was put back from a backup must forget.
--
-- At each start a replica draws a new home and writes it in two places: as a comment on the table installation, which a
-- dump carries, and as a setting of the database, which a dump of one database does not. So a dump that was put back has
-- another home than the database it is in, or, where the settings were dumped too, than the cluster.

-- name: RunningReplicas :one
-- How many sessions of replicas there are, but for those of `prewarm admin after-restore` itself.
SELECT count(*)::integer AS sessions
FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'prewarm/%'
  AND application_name NOT IN ('prewarm/after-restore', 'prewarm/migrate');

-- name: LockHome :exec
-- Replicas that start at once look and write one after another.
SELECT pg_advisory_xact_lock(7265573746);

-- name: Home :one
-- What the tables carry, what the database says, and the identifier of the cluster. Empty: there is none.
SELECT coalesce(obj_description('installation'::regclass, 'pg_class'), '')::text AS carried,
       coalesce((
         SELECT substr(setting, length('prewarm.home=') + 1)
         FROM pg_catalog.pg_db_role_setting s
         JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase, unnest(s.setconfig) setting
         WHERE d.datname = current_database() AND s.setrole = 0 AND setting LIKE 'prewarm.home=%'), '')::text AS here,
       (SELECT system_identifier FROM pg_control_system())::text AS cluster;

-- name: NextHome :exec
SELECT set_config('prewarm.next_home', @home::text, true);

-- name: MoveHome :exec
-- Writes what NextHome said, in the same transaction. Only the owner of the database may.
DO $$
BEGIN
  EXECUTE format('COMMENT ON TABLE installation IS %L', current_setting('prewarm.next_home'));
  EXECUTE format('ALTER DATABASE %I SET prewarm.home = %L', current_database(), current_setting('prewarm.next_home'));
END $$;

-- name: QuarantineRestored :many
-- What was unclaimed at the time of the backup may have been claimed since: it is neither handed out nor deleted. Its jobs
-- and intents end.
WITH ws AS (
  SELECT w.id, w.state, w.incarnation, w.name, w.organization_id
  FROM workspaces w
  WHERE w.state IN ('provisioning', 'starting', 'ready', 'standby')
  FOR NO KEY UPDATE
), old_jobs AS (
  UPDATE jobs j SET state = 'cancelled', finished_at = prewarm_now()
  FROM ws
  WHERE j.workspace_id = ws.id AND j.state IN ('pending', 'running')
), moved AS (
  UPDATE workspaces w SET state = 'quarantined', state_at = prewarm_now(), fault = @reason,
    expires_at = NULL -- no end of keeping: only a person may delete what may be somebody's
  FROM ws
  WHERE w.id = ws.id
  RETURNING w.id, w.incarnation, w.name
), dropped AS (
  DELETE FROM intents i USING ws WHERE i.workspace_id = ws.id
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT ws.id, ws.incarnation, ws.state, 'quarantined', prewarm_now(), @actor_id, @reason FROM ws
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, reason, source)
  SELECT prewarm_now(), @actor_id, ws.organization_id, 'workspace.quarantine', 'workspace', ws.id::text, ws.name, @reason,
         @source
  FROM ws
)
SELECT name FROM moved ORDER BY name;

-- name: MissRestored :execrows
-- Who waited at the time of the backup waits no more.
UPDATE claims SET state = 'missed', outcome = 'miss', reason = @reason, idempotency_key = NULL
WHERE state = 'waiting';

-- name: ForgetTokens :execrows
-- One that was revoked since the backup would be good again. Deleted rather than revoked, so that every replica makes
-- itself a new token of the owner.
DELETE FROM tokens;

-- name: ForgetReplicas :execrows
DELETE FROM replicas;

-- name: ForgetInventories :exec
-- What was seen before says nothing of what was made since the backup; and what was made in that time has no row, without
-- being an orphan (see TimesAtWork).
WITH findings AS (DELETE FROM inventory_findings), times AS (DELETE FROM times_at_work)
DELETE FROM inventories;

-- name: RecordRestore :exec
INSERT INTO audit_log (at, actor_id, action, target_type, target_id, reason, source)
SELECT prewarm_now(), @actor_id, 'installation.after-restore', 'installation', i.id::text, @reason, @source
FROM installation i;
