-- Every router has a log of its own, a stream: own numbers, own lock, own partition. The log so far is the first one.
-- saving: since when a replica writes a snapshot of it; the others need not do the same.
CREATE TABLE streams (
  id     INTEGER PRIMARY KEY,
  name   TEXT    COLLATE "C" NOT NULL UNIQUE,
  saving TIMESTAMPTZ
);
INSERT INTO streams VALUES (1, '');
DROP TRIGGER events_are_not_changed ON events;
ALTER TABLE events RENAME TO events_1;
ALTER TABLE events_1 DROP CONSTRAINT events_pkey;
ALTER TABLE events_1 ADD COLUMN stream INTEGER NOT NULL DEFAULT 1;
ALTER INDEX events_about RENAME TO events_1_ref_seq_idx;
CREATE TABLE events (
  seq     BIGINT  NOT NULL,
  time_us BIGINT  NOT NULL,
  kind    TEXT    NOT NULL,
  ref     TEXT    COLLATE "C" NOT NULL,
  body    BYTEA   NOT NULL,
  writer  BIGINT  NOT NULL DEFAULT 0,
  stream  INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (stream, seq)
) PARTITION BY LIST (stream);
CREATE INDEX events_about ON events (ref, seq);
ALTER TABLE events ATTACH PARTITION events_1 FOR VALUES IN (1);
-- A trigger for statements guards the table that a statement names: the whole, and each partition.
CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON events
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON events_1
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE keys ADD COLUMN stream INTEGER NOT NULL DEFAULT 1;
ALTER TABLE keys DROP CONSTRAINT keys_pkey;
ALTER TABLE keys ADD PRIMARY KEY (stream, key);
ALTER TABLE snapshots ADD COLUMN stream INTEGER NOT NULL DEFAULT 1;
ALTER TABLE snapshots DROP CONSTRAINT snapshots_pkey;
ALTER TABLE snapshots ADD PRIMARY KEY (stream, seq);
-- Parts of snapshots by the hash of what they hold; the body of a snapshot lists them.
CREATE TABLE snapshot_pieces (
  digest BYTEA       NOT NULL,
  body   BYTEA       NOT NULL,
  stored TIMESTAMPTZ NOT NULL,
  stream INTEGER     NOT NULL DEFAULT 1,
  PRIMARY KEY (stream, digest)
);
ALTER TABLE replicas ADD COLUMN stream INTEGER NOT NULL DEFAULT 1;
ALTER TABLE replicas ADD COLUMN condition TEXT NOT NULL DEFAULT '';
ALTER TABLE checks ADD COLUMN stream INTEGER NOT NULL DEFAULT 1;
-- Who owns a stream, until when. Every change of the owner takes the next epoch; a row is appended under its epoch only.
CREATE TABLE leases (
  stream INTEGER     PRIMARY KEY REFERENCES streams,
  owner  BIGINT,
  epoch  BIGINT      NOT NULL,
  until  TIMESTAMPTZ NOT NULL,
  load   DOUBLE PRECISION NOT NULL DEFAULT 0,
  heir   BIGINT
);
-- Processes that own streams, and where the others reach them.
CREATE TABLE owners (
  id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name    TEXT        NOT NULL,
  address TEXT        NOT NULL,
  seen    TIMESTAMPTZ NOT NULL
);
-- Versions of the configuration: proposed, then in force or refused.
CREATE TABLE configs (
  version    BIGINT      PRIMARY KEY,
  document   TEXT        NOT NULL,
  digest     TEXT        NOT NULL,
  applied_at TIMESTAMPTZ NOT NULL,
  applied_by TEXT        NOT NULL,
  status     TEXT        NOT NULL,
  problem    TEXT        NOT NULL DEFAULT ''
);
-- Processes that share a configuration: which version each runs, and which it has prepared or cannot prepare.
CREATE TABLE configured (
  id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name     TEXT        NOT NULL,
  seen     TIMESTAMPTZ NOT NULL,
  config   BIGINT      NOT NULL,
  prepared BIGINT      NOT NULL,
  problem  TEXT        NOT NULL DEFAULT ''
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
  EXECUTE format('CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON events_%s '
    'FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', found);
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
