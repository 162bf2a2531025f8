-- Notes, whenever workspaces are made, how many there are by then: in the transaction of the pass that makes them, and
-- so for every commit. Only passes make any, one after another; what others delete meanwhile makes the truth smaller.
CREATE SCHEMA chaos;
CREATE TABLE chaos.crowds (at timestamptz NOT NULL DEFAULT clock_timestamp(), live integer NOT NULL);
CREATE FUNCTION chaos.count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos.crowds (live) SELECT count(*) FROM workspaces w
    WHERE state <> 'deleted' AND provider = 'cloud'
      -- What is gone takes no place (S4). The binary before may have made the table without the column.
      AND NOT (state IN ('claimed', 'quarantined', 'draining', 'deleting') AND to_jsonb(w) ->> 'gone_at' IS NOT NULL);
  RETURN NULL;
END $$;
CREATE TRIGGER chaos AFTER INSERT ON workspaces FOR EACH STATEMENT EXECUTE FUNCTION chaos.count();
