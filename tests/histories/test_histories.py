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
#: Promises that are broken in the replicas, and what the checker must say then.
CONTROLS = {
    "turns": (("lock",), ("order: row", "replay:", "lost:")),
    "owner": (("fence", "deadline"), ("order: row", "replay:", "lost:")),
}


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


def numbers_may_repeat(url):
    """Let nothing but lock and fence keep two writers apart."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE bot_orch.events DROP CONSTRAINT events_pkey")
    connection.close()


@pytest.mark.parametrize("mode", CONTROLS)
def test_the_checker_catches_replicas_without_a_fence(mode, own):
    without, signs = CONTROLS[mode]
    for seed in range(5):
        setting = replace(
            Setting.of(seed, SECONDS, mode), settle_s=1.0, without=without, faults=("freeze", "swallow", "delay")
        )
        found = violations(Play(setting, *own, prepare=numbers_may_repeat).run())
        if any(sign in line for line in found for sign in signs):
            return
    raise AssertionError("writers without a fence were not caught")


def test_the_fence_alone_keeps_the_promises(own):
    """An owner may not notice that its lease has run out: the deadline by its own clock is not what safety rests on."""
    setting = replace(Setting.of(1, SECONDS, "owner"), without=("deadline",), faults=("freeze", "swallow", "delay"))
    assert violations(Play(setting, *own, prepare=numbers_may_repeat).run(), BACK_S) == []
