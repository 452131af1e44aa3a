-- A fresh schema at the newest version; a test holds it equal to the sum of the migrations.
CREATE TABLE events (
  seq     BIGINT PRIMARY KEY,
  time_us BIGINT NOT NULL,
  kind    TEXT   NOT NULL,
  ref     TEXT   COLLATE "C" NOT NULL,
  body    BYTEA  NOT NULL,
  writer  BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX events_about ON events (ref, seq);
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
CREATE TABLE replicas (
  id   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name TEXT        NOT NULL,
  seen TIMESTAMPTZ NOT NULL,
  seq  BIGINT      NOT NULL,
  busy TEXT[]      NOT NULL
);
CREATE TABLE checks (
  seq     BIGINT NOT NULL,
  replica BIGINT NOT NULL,
  hash    TEXT   NOT NULL,
  PRIMARY KEY (seq, replica)
);
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the log is append-only';
END
$$;
CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON events
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
