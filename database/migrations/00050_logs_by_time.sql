-- History and the audit log are partitioned by time, so that what is old is dropped with its table and not deleted row by row
-- (docs/decisions/0042-logs-are-partitioned-by-time.md).
--
-- This migration moves no row and scans none, whatever there is: the table that was there becomes the only partition, for
-- all of time. It takes the lock of an ALTER TABLE for some milliseconds. All else is the upkeep's (coderd/retention), a
-- step at a time, while everybody works.
--
-- The binary before runs on: it inserts into the same names, reads them, and deletes by its own statements.

-- +goose Up
SET LOCAL lock_timeout = '2s';

-- Nothing reads by it: no statement asks for a target by its type. Each row of a claim, and of all else, is cheaper without it by
-- more than what finding its partition takes.
DROP INDEX audit_log_target;

-- +goose StatementBegin
DO $$
DECLARE
  log text; number bigint; allowed record;
BEGIN
  FOREACH log IN ARRAY ARRAY['workspace_history', 'audit_log'] LOOP
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', log);
    EXECUTE format('SELECT last_value + is_called::int FROM %s', pg_get_serial_sequence(log, 'id')) INTO number;
    EXECUTE format('ALTER TABLE %I ALTER COLUMN id DROP IDENTITY', log);
    EXECUTE format('ALTER TABLE %I RENAME TO %I', log, log || '_before');
    EXECUTE format('ALTER INDEX %I RENAME TO %I', log || '_at', log || '_before_at');
    EXECUTE format('ALTER INDEX %I RENAME TO %I', log || '_pkey', log || '_before_pkey');
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS) PARTITION BY RANGE (at)', log, log || '_before');
    -- The numbers go on. They are unique since nobody but the identity gives them, and each partition has a primary key of
    -- its own: one of the whole would have to contain the time, and an index of the table that is there would be built anew.
    EXECUTE format('ALTER TABLE %I ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (START %s)', log, number);
    -- What other roles may do, such as one that only reads, they may do by the same name.
    FOR allowed IN SELECT acl.grantee, acl.privilege_type, acl.is_grantable FROM pg_class c, aclexplode(c.relacl) acl
                   WHERE c.oid = (log || '_before')::regclass AND acl.grantee <> c.relowner LOOP
      EXECUTE format('GRANT %s ON %I TO %s %s', allowed.privilege_type, log,
                     CASE allowed.grantee WHEN 0 THEN 'PUBLIC' ELSE allowed.grantee::regrole::text END,
                     CASE WHEN allowed.is_grantable THEN 'WITH GRANT OPTION' END);
    END LOOP;
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
  -- The same indexes as before, which are found to be those of the partition.
  ALTER INDEX workspace_history_workspace RENAME TO workspace_history_before_workspace;
  CREATE INDEX workspace_history_workspace ON workspace_history (workspace_id, id);
  CREATE INDEX workspace_history_at ON workspace_history (at);
  CREATE INDEX audit_log_at ON audit_log (at DESC, id DESC);
  ALTER TABLE workspace_history ATTACH PARTITION workspace_history_before FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
  ALTER TABLE audit_log ATTACH PARTITION audit_log_before FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
END $$;
-- +goose StatementEnd

-- The partitions of a log. The oldest begins at -infinity, the last one ends at infinity: no row is ever refused.
-- +goose StatementBegin
CREATE FUNCTION prewarm_log_partitions(log text) RETURNS TABLE (name text, starts timestamptz, ends timestamptz)
LANGUAGE sql STABLE AS $$
  SELECT c.relname::text, coalesce(substring(b.bound[1] FROM '''(.*)''')::timestamptz, '-infinity'),
         coalesce(substring(b.bound[2] FROM '''(.*)''')::timestamptz, 'infinity')
  FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid
  CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \((.*)\) TO \((.*)\)') AS b(bound)
  WHERE i.inhparent = log::regclass
$$;
-- +goose StatementEnd

-- Where the oldest partition ends.
-- +goose StatementBegin
CREATE FUNCTION prewarm_log_before_ends(log text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT min(p.ends) FROM prewarm_log_partitions(log) p
$$;
-- +goose StatementEnd

-- Takes the lock that exchanges partitions of a log, or adds a constraint to one. Claims wait behind whoever waits for it, so it is
-- waited for only as long as a claim may wait. Vacuum, which gives way after a second, is kept away from the partitions first, by a
-- lock that is in no other's way.
-- +goose StatementBegin
CREATE FUNCTION prewarm_lock_log(name text, VARIADIC partitions text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  partition text;
BEGIN
  PERFORM set_config('lock_timeout', '5s', true);
  FOREACH partition IN ARRAY partitions LOOP
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', partition);
  END LOOP;
  PERFORM set_config('lock_timeout', '200ms', true);
  EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', name);
END $$;
-- +goose StatementEnd

-- The next step of the upkeep of a log, if there is one: it returns what it did, and '' where nothing was to be done or
-- somebody else is at it. Each step is a transaction of its own; all that is known of what was done is in the catalog, so
-- whoever comes next goes on from there.
--
-- Partitions last a unit of time, a week or a month, and are made two units ahead, by splitting the last one, which has no
-- end. As a rule that one is empty. It has rows after the migration, and where nobody made partitions for so long. Then a
-- constraint says where its rows end, and is validated while others write, which is what lets it have an end without
-- being scanned under a lock. The constraint also holds for rows to come. Its end is therefore at least five weeks ahead, and
-- a constraint that was left behind is dropped two weeks before it would refuse a row.
--
-- A partition that is wholly older than `keep` goes with all that is older. Rows of history whose workspace is still there
-- stay: they are copied in batches into a table that then takes the place of both partitions. Rows so old are
-- not written any more; if there is one with a greater number than the last that was looked at, it is looked at first.
-- +goose StatementBegin
CREATE FUNCTION prewarm_keep_log(log text, unit text, keep interval, batch integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  moment    constant timestamptz := prewarm_now();
  length    constant interval := ('1 ' || unit)::interval;
  survivors constant text := log || '_survivors';
  final     record;
  oldest    record;
  younger   record;
  bound     timestamptz;
  seen      bigint;
  upto      bigint;
  filled    boolean;
BEGIN
  IF NOT pg_try_advisory_xact_lock(1886545271, 4) THEN
    RETURN '';
  END IF;
  SELECT * INTO final FROM prewarm_log_partitions(log) p ORDER BY p.starts DESC LIMIT 1;
  IF final.starts <= moment + 2 * length THEN
    EXECUTE format('SELECT EXISTS (SELECT FROM %I)', final.name) INTO filled;
    IF NOT filled THEN
      PERFORM prewarm_lock_log(log, final.name);
      EXECUTE format('SELECT EXISTS (SELECT FROM %I)', final.name) INTO filled;
      IF filled THEN
        RETURN 'the last partition has its first row';
      END IF;
      bound := date_trunc(unit, CASE WHEN final.starts = '-infinity' THEN moment + 2 * length ELSE final.starts END + length, 'UTC');
      EXECUTE format('DROP TABLE %I', final.name);
      PERFORM prewarm_make_log_partition(log, final.starts, bound);
      PERFORM prewarm_make_log_partition(log, bound, 'infinity');
      RETURN format('made a partition until %s', bound);
    END IF;

    SELECT substring(pg_get_constraintdef(c.oid) FROM 'at < ''([^'']*)''')::timestamptz, c.convalidated INTO bound, filled
    FROM pg_constraint c WHERE c.conrelid = final.name::regclass AND c.conname = 'log_closing';
    IF bound IS NULL THEN
      EXECUTE format('SELECT max(at) FROM %I', final.name) INTO bound; -- which a clock may have put ahead of now
      bound := date_trunc(unit, greatest(bound, moment) + 2 * length + interval '28 days', 'UTC');
      PERFORM prewarm_lock_log(final.name, final.name);
      EXECUTE format('ALTER TABLE %I ADD CONSTRAINT log_closing CHECK (at >= %L AND at < %L) NOT VALID',
                     final.name, final.starts, bound);
      RETURN format('the last partition is to end at %s', bound);
    ELSIF bound < moment + interval '14 days' THEN
      PERFORM prewarm_lock_log(final.name, final.name);
      EXECUTE format('ALTER TABLE %I DROP CONSTRAINT log_closing', final.name);
      RETURN format('the last partition is not to end at %s', bound);
    ELSIF NOT filled THEN
      EXECUTE format('ALTER TABLE %I VALIDATE CONSTRAINT log_closing', final.name);
      RETURN format('all rows of the last partition are before %s', bound);
    END IF;
    PERFORM prewarm_lock_log(log, final.name);
    EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', log, final.name);
    PERFORM prewarm_attach_log_partition(log, final.name, final.starts, bound);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT log_closing', final.name);
    IF final.starts <> '-infinity' THEN
      EXECUTE format('ALTER TABLE %I RENAME TO %I', final.name, prewarm_log_partition_name(log, final.starts, bound));
    END IF;
    PERFORM prewarm_make_log_partition(log, bound, 'infinity');
    RETURN format('the last partition ends at %s', bound);
  END IF;

  SELECT * INTO oldest FROM prewarm_log_partitions(log) p ORDER BY p.starts LIMIT 1;
  SELECT * INTO younger FROM prewarm_log_partitions(log) p ORDER BY p.starts OFFSET 1 LIMIT 1;
  IF younger.ends > moment - keep THEN
    RETURN '';
  END IF;
  IF to_regclass(survivors) IS NULL THEN
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING INDEXES, PRIMARY KEY (id), '
                   'CONSTRAINT log_closing CHECK (at < %L))', survivors, log, younger.ends);
    EXECUTE format('COMMENT ON TABLE %I IS %L', survivors, '0');
    RETURN format('what is before %s is to go', younger.ends);
  END IF;
  seen := obj_description(survivors::regclass)::bigint;
  IF log = 'workspace_history' THEN
    EXECUTE format('WITH part AS MATERIALIZED (SELECT * FROM %1$I h WHERE h.at < %2$L AND h.id > %3$s ORDER BY h.id LIMIT %4$s), '
                   'kept AS (INSERT INTO %5$I SELECT s.* FROM part s WHERE EXISTS (SELECT FROM workspaces w WHERE w.id = s.workspace_id)) '
                   'SELECT max(id) FROM part', log, younger.ends, seen, batch, survivors) INTO upto;
    IF upto IS NOT NULL THEN
      EXECUTE format('COMMENT ON TABLE %I IS %L', survivors, upto::text);
      RETURN format('what stays up to number %s is copied', upto);
    END IF;
  END IF;
  PERFORM prewarm_lock_log(log, oldest.name, younger.name, survivors);
  IF log = 'workspace_history' THEN
    EXECUTE format('SELECT EXISTS (SELECT FROM %I h WHERE h.at < %L AND h.id > %s)', log, younger.ends, seen) INTO filled;
    IF filled THEN
      RETURN 'a row came late';
    END IF;
  END IF;
  EXECUTE format('DROP TABLE %I, %I', oldest.name, younger.name);
  PERFORM prewarm_attach_log_partition(log, survivors, '-infinity', younger.ends);
  EXECUTE format('ALTER TABLE %I DROP CONSTRAINT log_closing', survivors);
  EXECUTE format('COMMENT ON TABLE %I IS NULL', survivors);
  EXECUTE format('ALTER TABLE %I RENAME TO %I', survivors, prewarm_log_partition_name(log, '-infinity', younger.ends));
  RETURN format('dropped what was before %s', younger.ends);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION prewarm_log_partition_name(log text, starts timestamptz, ends timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT log || CASE WHEN starts = '-infinity' THEN '_before' WHEN ends = 'infinity' THEN '_open'
                     ELSE to_char(starts AT TIME ZONE 'UTC', '_YYYYMMDD') END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION prewarm_attach_log_partition(log text, name text, starts timestamptz, ends timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', log, name,
                 CASE WHEN starts = '-infinity' THEN 'MINVALUE' ELSE quote_literal(starts) END,
                 CASE WHEN ends = 'infinity' THEN 'MAXVALUE' ELSE quote_literal(ends) END);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION prewarm_make_log_partition(log text, starts timestamptz, ends timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  name constant text := prewarm_log_partition_name(log, starts, ends);
BEGIN
  EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING INDEXES, PRIMARY KEY (id))', name, log);
  PERFORM prewarm_attach_log_partition(log, name, starts, ends);
END $$;
-- +goose StatementEnd

-- What the planner knows of a log as a whole: autovacuum looks at its partitions only.
-- +goose StatementBegin
CREATE FUNCTION prewarm_analyze_log(log text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ANALYZE %I', log);
END $$;
-- +goose StatementEnd
