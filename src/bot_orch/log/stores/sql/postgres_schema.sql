-- Version 1.
CREATE TABLE version (number INTEGER NOT NULL);
-- Every router has a log of its own, a stream: own numbers, own lock, own partition. The first one has no name.
CREATE TABLE streams (
  id   INTEGER PRIMARY KEY,
  name TEXT    COLLATE "C" NOT NULL UNIQUE
);
INSERT INTO streams VALUES (1, '');
-- Append-only. seq has no gaps: rows are appended under the stream's lock, so the order of commits is that of numbers.
CREATE TABLE events (
  seq     BIGINT  NOT NULL,
  time_us BIGINT  NOT NULL,
  kind    TEXT    NOT NULL,
  ref     TEXT    COLLATE "C" NOT NULL,
  body    BYTEA   NOT NULL,
  stream  INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (stream, seq)
) PARTITION BY LIST (stream);
-- Ids sort by time, so this index grows at its end.
CREATE INDEX events_about ON events (ref, seq);
CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1);
-- Names that may be used once: idempotency keys and feedback ids.
CREATE TABLE keys (
  key    TEXT    COLLATE "C" NOT NULL,
  seq    BIGINT  NOT NULL,
  digest BYTEA   NOT NULL,
  stream INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (stream, key)
);
CREATE TABLE snapshots (
  seq    BIGINT  NOT NULL,
  body   BYTEA   NOT NULL,
  stream INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (stream, seq)
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
-- A trigger for statements guards the table that a statement names: the whole, and each partition.
CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON events
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
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
  EXECUTE format('CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR TRUNCATE ON events_%s '
    'FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', id);
  EXECUTE format('CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events_%s '
    'FOR EACH ROW EXECUTE FUNCTION refuse_removal()', id);
END
$$;
SELECT guard_stream(1);
-- Who owns a stream, until when. Every change of the owner takes the next epoch; a row is appended under its epoch only.
CREATE TABLE leases (
  stream INTEGER     PRIMARY KEY REFERENCES streams,
  owner  BIGINT,
  epoch  BIGINT      NOT NULL,
  until  TIMESTAMPTZ NOT NULL,
  heir   BIGINT
);
-- The processes of a service: the stream that they serve, and where the others reach them.
CREATE TABLE members (
  id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name    TEXT        NOT NULL,
  address TEXT        NOT NULL,
  stream  TEXT        COLLATE "C" NOT NULL,
  seen    TIMESTAMPTZ NOT NULL
);
CREATE FUNCTION stream_key(stream INTEGER) RETURNS INTEGER LANGUAGE sql STABLE AS $$
  SELECT hashtext(CASE stream WHEN 1 THEN current_schema() ELSE current_schema() || ':' || stream END)
$$;
-- The number of a stream, made with its partition if there is none. The table stays open to others meanwhile.
CREATE FUNCTION make_stream(wanted TEXT) RETURNS INTEGER LANGUAGE plpgsql AS $$
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
-- The lock of a stream without an owner, until the transaction ends. An owner that let its lease run out is fenced off.
CREATE FUNCTION lock_stream(wanted INTEGER) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
  living BOOLEAN;
BEGIN
  PERFORM pg_advisory_xact_lock(6451060, stream_key(wanted));
  SELECT until > clock_timestamp() INTO living FROM leases WHERE stream = wanted AND owner IS NOT NULL;
  IF living THEN
    RAISE EXCEPTION 'the stream has an owner' USING ERRCODE = 'BO001';
  ELSIF NOT living THEN
    UPDATE leases SET owner = NULL, epoch = epoch + 1 WHERE stream = wanted;
  END IF;
END
$$;
-- The lock of a stream for its owner, until the transaction ends.
CREATE FUNCTION fence(wanted INTEGER, held BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(6451060, stream_key(wanted));
  IF NOT EXISTS (SELECT FROM leases WHERE stream = wanted AND epoch = held AND owner IS NOT NULL) THEN
    RAISE EXCEPTION 'the stream has another owner by now' USING ERRCODE = 'BO002';
  END IF;
END
$$;
-- A log that was restored, or that lost its end when a standby took over, does not go on where its writer is.
CREATE FUNCTION check_end(wanted INTEGER, known BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  IF known <> coalesce((SELECT seq FROM events WHERE stream = wanted ORDER BY seq DESC LIMIT 1), 0) THEN
    RAISE EXCEPTION 'the stream ends elsewhere' USING ERRCODE = 'BO003';
  END IF;
END
$$;
-- Become the owner of a stream; the epoch, or nothing while another lives.
CREATE FUNCTION claim_stream(wanted INTEGER, process BIGINT, lease_s DOUBLE PRECISION) RETURNS BIGINT
LANGUAGE plpgsql AS $$
DECLARE
  taken BIGINT;
BEGIN
  PERFORM pg_advisory_xact_lock(6451060, stream_key(wanted));
  INSERT INTO leases AS l VALUES (wanted, process, 1, clock_timestamp() + make_interval(secs => lease_s))
  ON CONFLICT (stream) DO UPDATE SET owner = EXCLUDED.owner, epoch = l.epoch + 1, until = EXCLUDED.until, heir = NULL
    WHERE l.owner IS NULL OR l.owner = EXCLUDED.owner OR l.until < clock_timestamp()
  RETURNING epoch INTO taken;
  RETURN taken;
END
$$;
