-- name: insert_event
INSERT INTO events (seq, time_us, kind, ref, body) VALUES (?, ?, ?, ?, ?)
-- name: insert_key
INSERT INTO keys (key, seq, digest) VALUES (?, ?, ?)
-- name: probe
INSERT INTO probes (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = n + 1
-- name: read
SELECT seq, time_us, kind, ref, body FROM events WHERE seq > ? ORDER BY seq LIMIT ?
-- name: about
SELECT seq, time_us, kind, ref, body FROM events WHERE ref = ? ORDER BY seq
-- name: row
SELECT seq, time_us, kind, ref, body FROM events WHERE seq = ?
-- name: find
SELECT seq, digest FROM keys WHERE key = ?
-- name: last
SELECT seq, time_us FROM events ORDER BY seq DESC LIMIT 1
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
-- name: keys_between
SELECT key, seq, digest FROM keys WHERE seq > ? AND seq <= ?
-- name: guard
SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = 'events_are_not_changed'
-- name: drop_guard
DROP TRIGGER events_are_not_changed
-- name: update_row
UPDATE events SET ref = ?, body = ? WHERE seq = ?
-- name: drop_keys
DELETE FROM keys WHERE seq IN (SELECT value FROM json_each(?))
