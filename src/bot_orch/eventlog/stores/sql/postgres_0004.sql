-- The beginning of a stream, up to the row seq, is in an archive: Parquet files in a folder. digest chains their rows,
-- base is the state after the last of them.
CREATE TABLE archives (
  stream  INTEGER PRIMARY KEY REFERENCES streams,
  seq     BIGINT  NOT NULL,
  time_us BIGINT  NOT NULL,
  folder  TEXT    NOT NULL,
  digest  BYTEA   NOT NULL,
  base    BYTEA   NOT NULL
);
-- Only rows that are in an archive may be removed, from the partition itself.
CREATE FUNCTION refuse_removal() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF OLD.seq > coalesce((SELECT seq FROM archives WHERE stream = OLD.stream), 0) THEN
    RAISE EXCEPTION 'the log is append-only';
  END IF;
  RETURN OLD;
END
$$;
CREATE FUNCTION guard_stream(id INTEGER) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('DROP TRIGGER IF EXISTS events_are_not_changed ON events_%s', id);
  EXECUTE format('CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR TRUNCATE ON events_%s '
    'FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', id);
  EXECUTE format('CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events_%s '
    'FOR EACH ROW EXECUTE FUNCTION refuse_removal()', id);
END
$$;
DO $$
DECLARE
  known INTEGER;
BEGIN
  FOR known IN SELECT id FROM streams LOOP
    PERFORM guard_stream(known);
  END LOOP;
END
$$;
CREATE OR REPLACE FUNCTION make_stream(wanted TEXT) RETURNS INTEGER LANGUAGE plpgsql AS $$
DECLARE
  found INTEGER;
BEGIN
  PERFORM pg_advisory_xact_lock(6451060, 0);
  SELECT id INTO found FROM streams WHERE name = wanted;
  IF found IS NOT NULL THEN
    RETURN found;
  END IF;
  INSERT INTO streams SELECT max(id) + 1, wanted FROM streams RETURNING id INTO found;
  EXECUTE format('CREATE TABLE events_%s (LIKE events INCLUDING DEFAULTS)', found);
  EXECUTE format('ALTER TABLE events_%s ADD CONSTRAINT one_stream CHECK (stream = %s)', found, found);
  EXECUTE format('ALTER TABLE events ATTACH PARTITION events_%s FOR VALUES IN (%s)', found, found);
  EXECUTE format('ALTER TABLE events_%s DROP CONSTRAINT one_stream', found);
  PERFORM guard_stream(found);
  RETURN found;
END
$$;
