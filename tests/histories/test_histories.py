"""A control for the histories of `make jepsen`: without lock and fence the checker finds the log wrong."""

import contextlib

import pytest
from checking import violations
from pg_running import need
from playing import Play, Setting

pytestmark = pytest.mark.slow
SECONDS = 5.0
UNFENCED = """
SET search_path = bot_orch;
CREATE OR REPLACE FUNCTION lock_stream(wanted INTEGER) RETURNS VOID LANGUAGE plpgsql AS 'BEGIN END';
CREATE OR REPLACE FUNCTION fence(wanted INTEGER, held BIGINT) RETURNS VOID LANGUAGE plpgsql AS 'BEGIN END';
ALTER TABLE events DROP CONSTRAINT events_pkey;
"""


@pytest.fixture(scope="module")
def own():
    """A server and a process that starts replicas."""
    pg = need()
    from replicas import Forker

    with contextlib.closing(Forker()) as forker:
        yield pg, forker


def unfenced(url):
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(UNFENCED)
    connection.close()


def test_the_checker_catches_replicas_without_a_fence(own):
    for seed in range(5):
        found = violations(Play(Setting.of(seed, SECONDS), *own, prepare=unfenced).run())
        if any("order: row" in line or "replay:" in line or "lost:" in line for line in found):
            return
    raise AssertionError("writers without a fence were not caught")
