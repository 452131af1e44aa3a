-- name: join
INSERT INTO members (name, address, stream, seen) VALUES (%s, %s, %s, clock_timestamp()) RETURNING id
-- name: forget
DELETE FROM members WHERE seen < clock_timestamp() - interval '1 day'
-- name: beat
INSERT INTO members (id, name, address, stream, seen) OVERRIDING SYSTEM VALUE
VALUES (%s, %s, %s, %s, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET address = EXCLUDED.address, seen = EXCLUDED.seen
RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
-- name: renew
UPDATE leases SET until = clock_timestamp() + make_interval(secs => %s)
WHERE stream = %s AND epoch = %s AND owner = %s
-- name: living
SELECT id, name, address FROM members
WHERE stream = %s AND seen > clock_timestamp() - make_interval(secs => %s) ORDER BY id
-- name: lease
SELECT l.owner, l.epoch, coalesce(l.until > clock_timestamp(), false), l.heir
FROM leases AS l JOIN streams AS s ON s.id = l.stream WHERE s.name = %s
-- name: claim
SELECT claim_stream(s, %s, %s), s FROM make_stream(%s) AS s
-- name: release
UPDATE leases AS l SET owner = NULL, heir = %s FROM streams AS s
WHERE s.id = l.stream AND s.name = %s AND l.owner = %s AND l.epoch = %s
-- name: leave
DELETE FROM members WHERE id = %s
-- name: notify
SELECT pg_notify(current_schema() || '_leases', '')
