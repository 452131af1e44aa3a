-- Rows since this version, packed: kind is a number or a text, ref the bytes of one of our ids or a text.
-- Rows of before stay in the table events, their keys in the table keys. Numbers go on, without gaps.
CREATE TABLE packed (
  seq     INTEGER PRIMARY KEY,
  time_us INTEGER NOT NULL,
  kind    ANY     NOT NULL,
  ref     ANY     NOT NULL,
  body    BLOB    NOT NULL
) STRICT;
-- Ids sort by time, so this index grows at its end; every entry holds seq, too.
CREATE INDEX packed_about ON packed (ref);
-- Names that may be used once: bytes or a text.
CREATE TABLE names (
  key    ANY     PRIMARY KEY,
  seq    INTEGER NOT NULL,
  digest BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER packed_are_not_changed BEFORE UPDATE ON packed BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER packed_are_not_removed BEFORE DELETE ON packed BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
