-- name: insert_event
INSERT INTO packed (seq, time_us, kind, ref, body) VALUES (?, ?, ?, ?, ?)
-- name: insert_key
INSERT INTO names (key, seq, digest) VALUES (?, ?, ?)
-- name: insert_snapshot
INSERT OR REPLACE INTO snapshots (seq, body) VALUES (?, ?)
-- name: drop_old_snapshots
DELETE FROM snapshots WHERE seq < (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT 1 OFFSET 1)
-- name: bodies_of_snapshots
SELECT body FROM snapshots
-- name: insert_piece
INSERT OR REPLACE INTO snapshot_pieces (digest, body) VALUES (?, ?)
-- name: names_of_pieces
SELECT digest FROM snapshot_pieces
-- name: piece
SELECT body FROM snapshot_pieces WHERE digest = ?
-- name: drop_piece
DELETE FROM snapshot_pieces WHERE digest = ?
-- name: drop_pieces
DELETE FROM snapshot_pieces
-- name: probe
INSERT INTO probes (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = n + 1
-- name: read
SELECT seq, time_us, kind, ref, body FROM packed WHERE seq > ?1
UNION ALL SELECT seq, time_us, kind, ref, body FROM events WHERE seq > ?1
ORDER BY seq LIMIT ?2
-- name: about
SELECT seq, time_us, kind, ref, body FROM packed WHERE ref = ?1
UNION ALL SELECT seq, time_us, kind, ref, body FROM events WHERE ref = ?2
ORDER BY seq
-- name: row
SELECT seq, time_us, kind, ref, body FROM packed WHERE seq = ?1
UNION ALL SELECT seq, time_us, kind, ref, body FROM events WHERE seq = ?1
-- name: find
SELECT seq, digest FROM names WHERE key = ?1
UNION ALL SELECT seq, digest FROM keys WHERE key = ?2
-- name: keys
SELECT key, seq, digest FROM names UNION ALL SELECT key, seq, digest FROM keys ORDER BY seq
-- name: old_keys
SELECT EXISTS (SELECT 1 FROM keys)
-- name: last
SELECT seq, time_us FROM packed WHERE seq = (SELECT MAX(seq) FROM packed)
UNION ALL SELECT seq, time_us FROM events WHERE seq = (SELECT MAX(seq) FROM events)
ORDER BY seq DESC LIMIT 1
-- name: snapshot
SELECT seq, body FROM snapshots WHERE seq < ? ORDER BY seq DESC LIMIT 1
-- name: guards_of_updates
SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name IN ('events_are_not_changed', 'packed_are_not_changed')
-- name: drop_guard_of_event
DROP TRIGGER events_are_not_changed
-- name: drop_guard_of_packed
DROP TRIGGER packed_are_not_changed
-- name: update_body_of_event
UPDATE events SET body = ? WHERE seq = ?
-- name: update_body_of_packed
UPDATE packed SET body = ? WHERE seq = ?
-- name: drop_snapshots
DELETE FROM snapshots
-- name: no_packed_rows
CREATE TEMP VIEW packed AS SELECT seq, time_us, kind, ref, body FROM events WHERE 0
-- name: no_packed_names
CREATE TEMP VIEW names AS SELECT key, seq, digest FROM keys WHERE 0
-- name: no_archives
CREATE TEMP VIEW archives AS SELECT seq AS id, seq, 0 AS time_us, '' AS folder, body AS digest, body AS base FROM snapshots WHERE 0
-- name: archived
SELECT seq, time_us, folder, digest FROM archives
-- name: base
SELECT seq, base FROM archives
-- name: note_archive
INSERT INTO archives (id, seq, time_us, folder, digest, base) VALUES (1, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, time_us = excluded.time_us, folder = excluded.folder,
  digest = excluded.digest, base = excluded.base
-- name: drop_events
DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE seq <= ?1 ORDER BY seq LIMIT ?2)
-- name: drop_packed
DELETE FROM packed WHERE seq IN (SELECT seq FROM packed WHERE seq <= ?1 ORDER BY seq LIMIT ?2)
-- name: keys_between
SELECT key, seq, digest FROM names WHERE seq > ?1 AND seq <= ?2
UNION ALL SELECT key, seq, digest FROM keys WHERE seq > ?1 AND seq <= ?2
