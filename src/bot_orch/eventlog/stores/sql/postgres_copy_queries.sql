-- name: keys_of_sqlite
SELECT key, seq, digest FROM keys ORDER BY seq
