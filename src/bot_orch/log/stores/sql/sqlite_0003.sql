-- Parts of snapshots by the hash of what they hold; the body of a snapshot lists them.
CREATE TABLE snapshot_pieces (
  digest BLOB PRIMARY KEY,
  body   BLOB NOT NULL
) STRICT, WITHOUT ROWID;
