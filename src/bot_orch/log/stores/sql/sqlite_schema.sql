-- Append-only. seq has no gaps: a row continues the log or is refused.
-- ref is the bytes of one of our ids, or a text; so is a key.
CREATE TABLE events (
  seq     INTEGER PRIMARY KEY,
  time_us INTEGER NOT NULL,
  kind    TEXT    NOT NULL,
  ref     ANY     NOT NULL,
  body    BLOB    NOT NULL
) STRICT;
-- Ids sort by time, so this index grows at its end; every entry holds seq, too.
CREATE INDEX events_about ON events (ref);
-- Names that may be used once: idempotency keys and feedback ids.
CREATE TABLE keys (
  key    ANY     PRIMARY KEY,
  seq    INTEGER NOT NULL,
  digest BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE probes (
  id INTEGER PRIMARY KEY,
  n  INTEGER NOT NULL
) STRICT;
-- The beginning of the log, up to the row seq, is in an archive: Parquet files in a folder. digest chains their rows,
-- base is the state after the last of them. Only rows that are in an archive may be removed.
CREATE TABLE archives (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  seq     INTEGER NOT NULL,
  time_us INTEGER NOT NULL,
  folder  TEXT    NOT NULL,
  digest  BLOB    NOT NULL,
  base    BLOB    NOT NULL
) STRICT;
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
WHEN OLD.seq > (SELECT coalesce(max(seq), 0) FROM archives)
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
