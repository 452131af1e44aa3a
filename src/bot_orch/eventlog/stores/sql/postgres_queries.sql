-- name: lock
SELECT pg_advisory_xact_lock(6451060, hashtext(current_schema()))
-- name: cut_off
SELECT pid, pg_terminate_backend(pid)
FROM pg_locks JOIN pg_stat_activity USING (pid) JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE locktype = 'advisory' AND granted AND pg_database.datname = current_database()
  AND classid = 6451060 AND objid = hashtext(current_schema())::oid AND objsubid = 2
  AND usename = current_user AND wait_event_type = 'Client'
  AND state_change < clock_timestamp() - make_interval(secs => %s)
-- name: insert_events
INSERT INTO events (seq, time_us, kind, ref, body, writer)
SELECT seq, time_us, kind, ref, body, %b
FROM unnest(%b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::bytea[]) AS t (seq, time_us, kind, ref, body)
-- name: insert_keys
INSERT INTO keys (key, seq, digest) SELECT * FROM unnest(%b::text[], %b::bigint[], %b::bytea[])
-- name: insert_snapshot
INSERT INTO snapshots (seq, body) VALUES (%b, %b) ON CONFLICT (seq) DO UPDATE SET body = EXCLUDED.body
-- name: drop_old_snapshots
DELETE FROM snapshots WHERE seq < (SELECT max(seq) FROM snapshots)
-- name: drop_snapshots
DELETE FROM snapshots
-- name: open_events
ALTER TABLE events DISABLE TRIGGER events_are_not_changed
-- name: update_bodies
UPDATE events SET body = t.body FROM unnest(%b::bigint[], %b::bytea[]) AS t (seq, body) WHERE events.seq = t.seq
-- name: close_events
ALTER TABLE events ENABLE TRIGGER events_are_not_changed
-- name: vacuum_events
VACUUM (FULL) events
-- name: vacuum_snapshots
VACUUM (FULL) snapshots
-- name: notify
SELECT pg_notify(%s, %s)
-- name: probe
INSERT INTO probes (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = probes.n + 1
-- name: read
SELECT seq, time_us, kind, ref, body FROM events WHERE seq > %s ORDER BY seq LIMIT %s
-- name: about
SELECT seq, time_us, kind, ref, body FROM events WHERE ref = %s ORDER BY seq
-- name: row
SELECT seq, time_us, kind, ref, body FROM events WHERE seq = %s
-- name: find
SELECT seq, digest FROM keys WHERE key = %s
-- name: keys
SELECT key, seq, digest FROM keys WHERE seq > %s AND seq <= %s ORDER BY seq
-- name: last
SELECT seq, time_us FROM events ORDER BY seq DESC LIMIT 1
-- name: snapshot
SELECT seq, body FROM snapshots ORDER BY seq DESC LIMIT 1
-- name: join
INSERT INTO replicas (name, seen, seq, busy) VALUES (%s, now(), %s, '{}') RETURNING id
-- name: beat
INSERT INTO replicas (id, name, seen, seq, busy) OVERRIDING SYSTEM VALUE VALUES (%s, %s, now(), %s, %s)
ON CONFLICT (id) DO UPDATE SET seen = EXCLUDED.seen, seq = EXCLUDED.seq, busy = EXCLUDED.busy
-- name: leave
DELETE FROM replicas WHERE id = %s
-- name: peers
SELECT id, name, seq, busy FROM replicas WHERE seen > now() - make_interval(secs => %s) ORDER BY id
-- name: forget_replicas
DELETE FROM replicas WHERE seen < now() - interval '1 day'
-- name: publish
INSERT INTO checks (seq, replica, hash) VALUES (%s, %s, %s) ON CONFLICT (seq, replica) DO UPDATE SET hash = EXCLUDED.hash
-- name: mismatches
SELECT ours.seq, theirs.replica, split_part(ours.hash, ':', 2), split_part(theirs.hash, ':', 2)
FROM checks AS ours JOIN checks AS theirs USING (seq) JOIN replicas ON replicas.id = theirs.replica
WHERE ours.replica = %s AND theirs.hash <> ours.hash
  AND split_part(theirs.hash, ':', 1) = split_part(ours.hash, ':', 1)
  AND replicas.seen > now() - make_interval(secs => %s)
ORDER BY ours.seq LIMIT 1
-- name: agreed
SELECT count(*) FROM checks AS ours JOIN checks AS theirs USING (seq)
WHERE ours.replica = %s AND theirs.replica <> ours.replica AND theirs.hash = ours.hash
-- name: forget_checks
DELETE FROM checks WHERE seq < %s
-- name: owners
SELECT DISTINCT ON (ref) ref, writer FROM events WHERE ref = ANY(%s) ORDER BY ref, seq DESC
