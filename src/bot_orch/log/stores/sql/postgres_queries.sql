-- name: lock
SELECT lock_stream(%s)
-- name: fence
SELECT fence(%s, %s)
-- name: check_end
SELECT check_end(%s, %s)
-- name: owner
SELECT o.name FROM leases AS l JOIN members AS o ON o.id = l.owner WHERE l.stream = %s AND l.until > clock_timestamp()
-- name: streams
SELECT id, name FROM streams ORDER BY id
-- name: make_stream
SELECT make_stream(%s)
-- name: cut_off
SELECT pid, pg_terminate_backend(pid)
FROM pg_locks JOIN pg_stat_activity USING (pid) JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE locktype = 'advisory' AND granted AND pg_database.datname = current_database()
  AND classid = 6451060 AND objid = (SELECT stream_key(id) FROM streams WHERE name = %s)::oid AND objsubid = 2
  AND usename = current_user AND wait_event_type = 'Client'
  AND state_change < clock_timestamp() - make_interval(secs => %s)
-- name: insert_events
INSERT INTO events (stream, seq, time_us, kind, ref, body)
SELECT %b, seq, time_us, kind, ref, body
FROM unnest(%b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::bytea[]) AS t (seq, time_us, kind, ref, body)
-- name: insert_keys
INSERT INTO keys (stream, key, seq, digest)
SELECT %b, key, seq, digest FROM unnest(%b::text[], %b::bigint[], %b::bytea[]) AS t (key, seq, digest)
-- name: insert_snapshot
INSERT INTO snapshots (stream, seq, body) VALUES (%b, %b, %b) ON CONFLICT (stream, seq) DO UPDATE SET body = EXCLUDED.body
-- name: drop_old_snapshots
DELETE FROM snapshots WHERE stream = %b AND seq < (SELECT max(seq) FROM snapshots WHERE stream = %b)
-- name: drop_snapshots
DELETE FROM snapshots WHERE stream = %s
-- name: open_events
ALTER TABLE events_{stream} DISABLE TRIGGER events_are_not_changed
-- name: update_rows
UPDATE events_{stream} AS e SET ref = t.ref, body = t.body
FROM unnest(%b::bigint[], %b::text[], %b::bytea[]) AS t (seq, ref, body) WHERE e.seq = t.seq
-- name: drop_keys
DELETE FROM keys WHERE stream = %b AND seq = ANY(%b::bigint[])
-- name: close_events
ALTER TABLE events_{stream} ENABLE TRIGGER events_are_not_changed
-- name: vacuum_events
VACUUM (FULL) events_{stream}
-- name: vacuum_snapshots
VACUUM (FULL) snapshots, archives, keys
-- name: probe
INSERT INTO probes (id, n) VALUES (%s, 1) ON CONFLICT (id) DO UPDATE SET n = probes.n + 1
-- name: read
SELECT seq, time_us, kind, ref, body FROM events WHERE stream = %s AND seq > %s ORDER BY seq LIMIT %s
-- name: about
SELECT seq, time_us, kind, ref, body FROM events WHERE stream = %s AND ref = %s ORDER BY seq
-- name: row
SELECT seq, time_us, kind, ref, body FROM events WHERE stream = %s AND seq = %s
-- name: find
SELECT seq, digest FROM keys WHERE stream = %s AND key = %s
-- name: by_keys
SELECT k.key, k.digest, k.seq, e.time_us, e.kind, e.ref, e.body
FROM keys AS k LEFT JOIN events AS e ON e.stream = k.stream AND e.seq = k.seq WHERE k.stream = %s AND k.key = ANY(%s)
-- name: by_refs
SELECT seq, time_us, kind, ref, body FROM events WHERE stream = %s AND ref = ANY(%s) ORDER BY seq
-- name: clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
-- name: keys_between
SELECT key, seq, digest FROM keys WHERE stream = %s AND seq > %s AND seq <= %s ORDER BY seq
-- name: last
SELECT seq, time_us FROM events WHERE stream = %s ORDER BY seq DESC LIMIT 1
-- name: snapshot
SELECT seq, body FROM snapshots WHERE stream = %s ORDER BY seq DESC LIMIT 1
-- name: archived
SELECT seq, time_us, folder, digest FROM archives WHERE stream = %s
-- name: base
SELECT seq, base FROM archives WHERE stream = %s
-- name: lock_archive
SELECT pg_try_advisory_lock(6451061, stream_key(%s))
-- name: note_archive
INSERT INTO archives (stream, seq, time_us, folder, digest, base) VALUES (%b, %b, %b, %b, %b, %b)
ON CONFLICT (stream) DO UPDATE SET seq = EXCLUDED.seq, time_us = EXCLUDED.time_us, folder = EXCLUDED.folder,
  digest = EXCLUDED.digest, base = EXCLUDED.base
-- name: drop_archived
DELETE FROM events_{stream} WHERE seq IN (SELECT seq FROM events_{stream} WHERE seq <= %s ORDER BY seq LIMIT %s)
-- name: reclaim_events
VACUUM events_{stream}
