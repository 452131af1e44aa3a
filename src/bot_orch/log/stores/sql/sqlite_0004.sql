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
DROP TRIGGER events_are_not_removed;
DROP TRIGGER packed_are_not_removed;
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
WHEN OLD.seq > (SELECT coalesce(max(seq), 0) FROM archives)
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER packed_are_not_removed BEFORE DELETE ON packed
WHEN OLD.seq > (SELECT coalesce(max(seq), 0) FROM archives)
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
