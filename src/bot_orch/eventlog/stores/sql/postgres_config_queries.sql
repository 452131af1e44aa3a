-- name: lock
SELECT pg_advisory_xact_lock(6451061, hashtext(current_schema()))

-- name: current
SELECT version, document, digest, status, applied_by, extract(epoch FROM clock_timestamp() - applied_at)::float8,
  problem, to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM configs WHERE status = 'adopted' ORDER BY version DESC LIMIT 1

-- name: proposal
SELECT version, document, digest, status, applied_by, extract(epoch FROM clock_timestamp() - applied_at)::float8,
  problem, to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM configs WHERE status = 'proposed' ORDER BY version DESC LIMIT 1

-- name: newer
SELECT version, document, digest, status, applied_by, extract(epoch FROM clock_timestamp() - applied_at)::float8,
  problem, to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM configs WHERE version > %s AND status IN ('adopted', 'proposed') ORDER BY version

-- name: history
SELECT version, document, digest, status, applied_by, extract(epoch FROM clock_timestamp() - applied_at)::float8,
  problem, to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM configs ORDER BY version DESC LIMIT %s

-- name: add
INSERT INTO configs (version, document, digest, applied_at, applied_by, status)
SELECT coalesce(max(version), 0) + 1, %s, %s, clock_timestamp(), %s, %s FROM configs
RETURNING version

-- name: decide
UPDATE configs SET status = %s, problem = %s, applied_at = clock_timestamp() WHERE version = %s AND status = 'proposed'

-- name: join
INSERT INTO configured (name, seen, config, prepared) VALUES (%s, clock_timestamp(), %s, %s) RETURNING id

-- name: forget
DELETE FROM configured WHERE seen < clock_timestamp() - INTERVAL '1 day'

-- name: beat
INSERT INTO configured (id, name, seen, config, prepared, problem) OVERRIDING SYSTEM VALUE
VALUES (%s, %s, clock_timestamp(), %s, %s, %s)
ON CONFLICT (id) DO UPDATE
SET seen = EXCLUDED.seen, config = EXCLUDED.config, prepared = EXCLUDED.prepared, problem = EXCLUDED.problem

-- name: processes
SELECT id, name, config, prepared, problem, extract(epoch FROM clock_timestamp() - seen)::float8
FROM configured ORDER BY id

-- name: leave
DELETE FROM configured WHERE id = %s
