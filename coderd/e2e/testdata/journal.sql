-- A journal of every commit, in the exact order in which commits became visible.
--
-- A row of commits is written when a transaction first changes something, and numbered by a trigger that fires while it
-- commits, under a lock that is released only after the commit is visible to others. So the numbers are the order of
-- visibility, without ties and without gaps in time. The lock is taken last, and for nothing but the commit itself.
--
-- snapshot is what the transaction saw when it first changed something; in REPEATABLE READ, where a pass runs, that is
-- what it saw throughout.
CREATE SCHEMA journal;
CREATE SEQUENCE journal.seq;
CREATE TABLE journal.commits (
  xid      xid8 PRIMARY KEY DEFAULT pg_current_xact_id(),
  snapshot pg_snapshot NOT NULL DEFAULT pg_current_snapshot(),
  began_at timestamptz NOT NULL DEFAULT transaction_timestamp(),
  frozen   boolean NOT NULL DEFAULT current_setting('transaction_isolation') <> 'read committed',
  seq      bigint
);
CREATE TABLE journal.changes (
  id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  xid   xid8 NOT NULL DEFAULT pg_current_xact_id(),
  at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  thing text NOT NULL,
  was   jsonb, -- null: it was not there
  is_   jsonb  -- null: it is gone
);

-- The arguments are the columns that matter; what leaves them as they are is no change.
CREATE FUNCTION journal.change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  was jsonb;
  is_ jsonb;
BEGIN
  IF TG_OP <> 'INSERT' THEN
    SELECT jsonb_object_agg(c, to_jsonb(OLD) -> c) INTO was FROM unnest(TG_ARGV) c;
  END IF;
  IF TG_OP <> 'DELETE' THEN
    SELECT jsonb_object_agg(c, to_jsonb(NEW) -> c) INTO is_ FROM unnest(TG_ARGV) c;
  END IF;
  IF was IS DISTINCT FROM is_ THEN
    INSERT INTO journal.commits DEFAULT VALUES ON CONFLICT DO NOTHING;
    INSERT INTO journal.changes (thing, was, is_) VALUES (TG_TABLE_NAME, was, is_);
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION journal.number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(7262);
  UPDATE journal.commits SET seq = nextval('journal.seq') WHERE xid = NEW.xid;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER number AFTER INSERT ON journal.commits DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION journal.number();

CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON providers
  FOR EACH ROW EXECUTE FUNCTION journal.change('name', 'maximum');
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON templates
  FOR EACH ROW EXECUTE FUNCTION journal.change('id', 'boot_timeout_s', 'keep_outdated', 'deprecated_at', 'deleted_at');
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON presets
  FOR EACH ROW EXECUTE FUNCTION journal.change('id', 'template_id', 'pool_key', 'instances', 'ttl_s', 'deleted_at');
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON workspaces
  FOR EACH ROW EXECUTE FUNCTION
    journal.change('id', 'preset_id', 'pool_key', 'provider', 'state', 'incarnation', 'expires_at', 'claim_id');
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON intents
  FOR EACH ROW EXECUTE FUNCTION journal.change('workspace_id', 'incarnation', 'kind', 'reason');
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON claims
  FOR EACH ROW EXECUTE FUNCTION journal.change('id', 'preset_id', 'state', 'deadline_at');
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON jobs
  FOR EACH ROW EXECUTE FUNCTION journal.change('id', 'workspace_id', 'incarnation', 'kind', 'state', 'attempt');
