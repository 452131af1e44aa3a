-- name: insert_event
INSERT INTO events (seq, time_us, kind, ref, body) VALUES (?, ?, ?, ?, ?)
-- name: insert_key
INSERT INTO keys (key, seq, digest) VALUES (?, ?, ?)
-- name: insert_snapshot
INSERT OR REPLACE INTO snapshots (seq, body) VALUES (?, ?)
-- name: drop_old_snapshots
DELETE FROM snapshots WHERE seq < (SELECT MAX(seq) FROM snapshots)
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
-- name: snapshot
SELECT seq, body FROM snapshots ORDER BY seq DESC LIMIT 1
-- name: guard_of_updates
SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = 'events_are_not_changed'
-- name: drop_guard_of_updates
DROP TRIGGER events_are_not_changed
-- name: update_body
UPDATE events SET body = ? WHERE seq = ?
-- name: drop_snapshots
DELETE FROM snapshots
