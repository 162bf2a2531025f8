-- Notes, whenever workspaces are made, how many there are by then: in the transaction of the pass that makes them, and
-- so for every commit. Only passes make any, one after another; what others delete meanwhile makes the truth smaller.
CREATE SCHEMA chaos;
CREATE TABLE chaos.crowds (at timestamptz NOT NULL DEFAULT clock_timestamp(), live integer NOT NULL);
CREATE FUNCTION chaos.count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos.crowds (live) SELECT count(*) FROM workspaces
    WHERE state <> 'deleted' AND provider = 'cloud'
      AND NOT (gone_at IS NOT NULL AND state IN ('claimed', 'quarantined', 'draining', 'deleting')); -- it takes no place (S4)
  RETURN NULL;
END $$;
CREATE TRIGGER chaos AFTER INSERT ON workspaces FOR EACH STATEMENT EXECUTE FUNCTION chaos.count();
