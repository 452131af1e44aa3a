"""A sample of the histories of `make jepsen`, short ones; and a control: without lock and fence the log is wrong."""

import contextlib
from dataclasses import replace

import pytest
from checking import Outage, violations
from pg_running import need
from playing import Play, Setting

pytestmark = pytest.mark.slow
SEEDS = range(1, 11)
SECONDS = 5.0
BACK_S = 10.0  # other tests run at the same time; `make jepsen` asks for five seconds
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


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_keeps_every_promise(seed, own):
    play = Play(Setting.of(seed, SECONDS), *own)
    history = play.run()
    wrong = violations(history, BACK_S)
    assert wrong == [], f"python tests/histories/jepsen.py --only {seed} --seconds {SECONDS:g}\n{play.logs[-5000:]}"
    assert Outage().add(history).silent <= 1


def unfenced(url):
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(UNFENCED)
    connection.close()


def test_the_checker_catches_replicas_without_a_fence(own):
    for seed in range(5):
        setting = replace(Setting.of(seed, SECONDS), settle_s=1.0)
        found = violations(Play(setting, *own, prepare=unfenced).run())
        if any("order: row" in line or "replay:" in line or "lost:" in line for line in found):
            return
    raise AssertionError("writers without a fence were not caught")
