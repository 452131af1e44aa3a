-- name: join
INSERT INTO members (name, address, seen) VALUES (%s, %s, clock_timestamp()) RETURNING id
-- name: forget
DELETE FROM members WHERE seen < clock_timestamp() - interval '1 day'
-- name: beat
INSERT INTO members (id, name, address, config, problem, seen) OVERRIDING SYSTEM VALUE
VALUES (%s, %s, %s, %s, %s, clock_timestamp())
ON CONFLICT (id) DO UPDATE
SET address = EXCLUDED.address, config = EXCLUDED.config, problem = EXCLUDED.problem, seen = EXCLUDED.seen
RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, (SELECT coalesce(max(version), 0) FROM configs)
-- name: renew
UPDATE leases AS l SET until = clock_timestamp() + make_interval(secs => %s), load = t.load
FROM unnest(%s::integer[], %s::bigint[], %s::float8[]) AS t (stream, epoch, load)
WHERE l.stream = t.stream AND l.epoch = t.epoch AND l.owner = %s
-- name: living
SELECT id, name, address FROM members WHERE seen > clock_timestamp() - make_interval(secs => %s) ORDER BY id
-- name: leases
SELECT s.name, l.owner, l.epoch, coalesce(l.until > clock_timestamp(), false), l.load, l.heir
FROM leases AS l JOIN streams AS s ON s.id = l.stream
-- name: claim
SELECT claim_stream(s, %s, %s), s FROM make_stream(%s) AS s
-- name: release
UPDATE leases AS l SET owner = NULL, heir = %s FROM streams AS s
WHERE s.id = l.stream AND s.name = %s AND l.owner = %s AND l.epoch = %s
-- name: leave
DELETE FROM members WHERE id = %s
-- name: notify
SELECT pg_notify(current_schema() || '_leases', '')
-- name: tell
SELECT pg_notify(current_schema() || '_usage', %s)
