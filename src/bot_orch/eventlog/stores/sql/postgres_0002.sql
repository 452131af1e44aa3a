-- Which replica wrote a row: a task belongs to whoever wrote about it last.
ALTER TABLE events ADD COLUMN writer BIGINT NOT NULL DEFAULT 0;
-- Replicas say now and then that they are there, how far they are, and what their agents still work on.
CREATE TABLE replicas (
  id   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name TEXT        NOT NULL,
  seen TIMESTAMPTZ NOT NULL,
  seq  BIGINT      NOT NULL,
  busy TEXT[]      NOT NULL
);
-- What replicas hold after the same event; two hashes for one seq mean that one of them is wrong.
CREATE TABLE checks (
  seq     BIGINT NOT NULL,
  replica BIGINT NOT NULL,
  hash    TEXT   NOT NULL,
  PRIMARY KEY (seq, replica)
);
