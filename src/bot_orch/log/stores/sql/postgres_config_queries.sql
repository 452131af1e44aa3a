-- name: lock
SELECT pg_advisory_xact_lock(6451061, hashtext(current_schema()))

-- name: history
SELECT version, document, digest, revision, applied_by, to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM configs ORDER BY version DESC LIMIT %s

-- name: known
SELECT 1 FROM configs WHERE digest = %s LIMIT 1

-- name: add
INSERT INTO configs (version, document, digest, revision, applied_at, applied_by)
SELECT coalesce(max(version), 0) + 1, %s, %s, %s, clock_timestamp(), %s FROM configs

-- name: notify
SELECT pg_notify(current_schema() || '_leases', '')

-- name: members
SELECT name, config, problem FROM members
WHERE seen > clock_timestamp() - make_interval(secs => %s) ORDER BY id
