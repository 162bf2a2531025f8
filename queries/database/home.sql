-- Where a database is at home.
--
-- At each start a replica draws a new home and writes it in two places: as a comment on the table installation, which a
-- dump carries, and as a setting of the database, which a dump of one database does not. So a dump that was put back has
-- another home than the database it is in, or, where the settings were dumped too, than the cluster.

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
