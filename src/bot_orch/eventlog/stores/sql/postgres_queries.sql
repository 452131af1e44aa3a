-- name: lock
SELECT lock_stream(%s)
-- name: fence
SELECT fence(%s, %s)
-- name: streams
SELECT id, name FROM streams ORDER BY id
-- name: make_stream
SELECT make_stream(%s)
-- name: cut_off
SELECT pid, pg_terminate_backend(pid)
FROM pg_locks JOIN pg_stat_activity USING (pid) JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE locktype = 'advisory' AND granted AND pg_database.datname = current_database()
  AND classid = 6451060 AND objid = stream_key(%s)::oid AND objsubid = 2
  AND usename = current_user AND wait_event_type = 'Client'
  AND state_change < clock_timestamp() - make_interval(secs => %s)
-- name: insert_events
INSERT INTO events (stream, writer, seq, time_us, kind, ref, body)
SELECT %b, %b, seq, time_us, kind, ref, body
FROM unnest(%b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::bytea[]) AS t (seq, time_us, kind, ref, body)
-- name: insert_keys
INSERT INTO keys (stream, key, seq, digest)
SELECT %b, key, seq, digest FROM unnest(%b::text[], %b::bigint[], %b::bytea[]) AS t (key, seq, digest)
-- name: insert_snapshot
INSERT INTO snapshots (stream, seq, body) VALUES (%b, %b, %b) ON CONFLICT (stream, seq) DO UPDATE SET body = EXCLUDED.body
-- name: drop_old_snapshots
DELETE FROM snapshots WHERE stream = %b AND seq < (SELECT max(seq) FROM snapshots WHERE stream = %b AND seq < %b)
-- name: drop_snapshots
DELETE FROM snapshots WHERE stream = %s
-- name: open_events
ALTER TABLE events_{stream} DISABLE TRIGGER events_are_not_changed
-- name: update_bodies
UPDATE events_{stream} AS e SET body = t.body FROM unnest(%b::bigint[], %b::bytea[]) AS t (seq, body) WHERE e.seq = t.seq
-- name: close_events
ALTER TABLE events_{stream} ENABLE TRIGGER events_are_not_changed
-- name: vacuum_events
VACUUM (FULL) events_{stream}
-- name: vacuum_snapshots
VACUUM (FULL) snapshots, snapshot_pieces, archives
-- name: notify
SELECT pg_notify(%s, %s)
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
-- name: keys
SELECT key, seq, digest FROM keys WHERE stream = %s AND seq > %s AND seq <= %s ORDER BY seq
-- name: last
SELECT seq, time_us FROM events WHERE stream = %s ORDER BY seq DESC LIMIT 1
-- name: snapshot
SELECT seq, body FROM snapshots WHERE stream = %s AND seq < %s ORDER BY seq DESC LIMIT 1
-- name: names_of_pieces
SELECT digest FROM snapshot_pieces WHERE stream = %s AND digest = ANY(%s)
-- name: pieces
SELECT digest, body FROM snapshot_pieces WHERE stream = %s AND digest = ANY(%s)
-- name: insert_pieces
INSERT INTO snapshot_pieces (stream, digest, body, stored)
SELECT %b, digest, body, now() FROM unnest(%b::bytea[], %b::bytea[]) AS t (digest, body)
ON CONFLICT (stream, digest) DO UPDATE SET body = EXCLUDED.body, stored = EXCLUDED.stored
-- name: drop_other_pieces
DELETE FROM snapshot_pieces WHERE stream = %b AND stored < now() - interval '1 minute'
  AND digest NOT IN (SELECT unnest(%b::bytea[]))
-- name: drop_pieces
DELETE FROM snapshot_pieces WHERE stream = %s
-- name: claim_saving
UPDATE streams SET saving = now() WHERE id = %s AND (saving IS NULL OR saving < now() - make_interval(secs => %s))
RETURNING coalesce((SELECT max(seq) FROM snapshots WHERE stream = streams.id), 0)
-- name: end_saving
UPDATE streams SET saving = NULL WHERE id = %s
-- name: join
INSERT INTO replicas (stream, name, seen, seq, busy) VALUES (%s, %s, now(), %s, '{}') RETURNING id
-- name: beat
INSERT INTO replicas (stream, id, name, seen, seq, busy, condition) OVERRIDING SYSTEM VALUE
VALUES (%s, %s, %s, now(), %s, %s, %s)
ON CONFLICT (id) DO UPDATE SET seen = EXCLUDED.seen, seq = EXCLUDED.seq, busy = EXCLUDED.busy, condition = EXCLUDED.condition
-- name: leave
DELETE FROM replicas WHERE id = %s
-- name: peers
SELECT id, name, seq, busy, condition FROM replicas WHERE stream = %s AND seen > now() - make_interval(secs => %s) ORDER BY id
-- name: forget_replicas
DELETE FROM replicas WHERE seen < now() - interval '1 day'
-- name: publish
INSERT INTO checks (stream, seq, replica, hash) VALUES (%s, %s, %s, %s) ON CONFLICT (seq, replica) DO UPDATE SET hash = EXCLUDED.hash
-- name: mismatches
SELECT ours.seq, theirs.replica, split_part(ours.hash, ':', 2), split_part(theirs.hash, ':', 2)
FROM checks AS ours JOIN checks AS theirs USING (stream, seq) JOIN replicas ON replicas.id = theirs.replica
WHERE ours.replica = %s AND theirs.hash <> ours.hash
  AND split_part(theirs.hash, ':', 1) = split_part(ours.hash, ':', 1)
  AND replicas.seen > now() - make_interval(secs => %s)
ORDER BY ours.seq LIMIT 1
-- name: agreed
SELECT count(*) FROM checks AS ours JOIN checks AS theirs USING (stream, seq)
WHERE ours.replica = %s AND theirs.replica <> ours.replica AND theirs.hash = ours.hash
-- name: forget_checks
DELETE FROM checks WHERE stream = %s AND seq < %s
-- name: owners
SELECT DISTINCT ON (ref) ref, writer FROM events WHERE stream = %s AND ref = ANY(%s) ORDER BY ref, seq DESC
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
