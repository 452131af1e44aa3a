-- Append-only. seq has no gaps: a row continues the log or is refused.
CREATE TABLE events (
  seq     INTEGER PRIMARY KEY,
  time_us INTEGER NOT NULL,
  kind    TEXT    NOT NULL,
  ref     TEXT    NOT NULL,
  body    BLOB    NOT NULL
) STRICT;
-- Ids sort by time, so this index grows at its end.
CREATE INDEX events_about ON events (ref, seq);
-- Names that may be used once: idempotency keys and feedback ids.
CREATE TABLE keys (
  key    TEXT    PRIMARY KEY,
  seq    INTEGER NOT NULL,
  digest BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE snapshots (
  seq  INTEGER PRIMARY KEY,
  body BLOB    NOT NULL
) STRICT;
CREATE TABLE probes (
  id INTEGER PRIMARY KEY,
  n  INTEGER NOT NULL
) STRICT;
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
