-- Append-only. seq has no gaps: it is given under the advisory lock, so the order of commits is the order of numbers.
CREATE TABLE events (
  seq     BIGINT PRIMARY KEY,
  time_us BIGINT NOT NULL,
  kind    TEXT   NOT NULL,
  ref     TEXT   COLLATE "C" NOT NULL,
  body    BYTEA  NOT NULL
);
-- Ids sort by time, so this index grows at its end.
CREATE INDEX events_about ON events (ref, seq);
-- Names that may be used once: idempotency keys and feedback ids.
CREATE TABLE keys (
  key    TEXT   COLLATE "C" PRIMARY KEY,
  seq    BIGINT NOT NULL,
  digest BYTEA  NOT NULL
);
CREATE TABLE snapshots (
  seq  BIGINT PRIMARY KEY,
  body BYTEA  NOT NULL
);
CREATE TABLE probes (
  id INTEGER PRIMARY KEY,
  n  BIGINT  NOT NULL
);
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the log is append-only';
END
$$;
CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON events
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
