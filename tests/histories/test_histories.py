"""A sample of the histories of `make jepsen`, short ones; and a control: without the fence the log is wrong."""

import contextlib
from dataclasses import replace

import pytest
from checking import Outage, violations
from pg_running import need
from playing import Play, Setting

pytestmark = pytest.mark.slow
SEEDS = range(1, 6)
SECONDS = 5.0
BACK_S = 10.0  # other tests run at the same time; `make jepsen` asks for five seconds
#: Promises that are broken in the replicas, and what the checker must say then.
CONTROL = ("deadline", "fence")
SIGNS = ("order: row", "replay:", "lost:")


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
    assert wrong == [], f"{again(play)}\n{play.logs[-5000:]}"
    assert Outage().add(history).silent <= 1


def again(play):
    """The command that plays it again."""
    return f"python tests/histories/jepsen.py --only {play.setting.seed} --seconds {SECONDS:g}"


def numbers_may_repeat(url):
    """Let nothing but the fence keep two writers apart."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE bot_orch.events DROP CONSTRAINT events_pkey")
    connection.close()


def frozen(seed, **changes):
    """A history with freezes alone, long ones: owners lose their leases."""
    return replace(Setting.of(seed, SECONDS), faults=("freeze",), least_s=1.5, **changes)


def test_the_checker_catches_owners_without_a_fence(own):
    """They go on after their lease, and append without a check of the epoch and of the end of the log."""
    for seed in range(1, 6):
        setting = frozen(seed, settle_s=1.0, without=CONTROL)
        found = violations(Play(setting, *own, prepare=numbers_may_repeat).run())
        if any(sign in line for line in found for sign in SIGNS):
            return
    raise AssertionError(f"owners without {CONTROL} were not caught")


def test_the_fence_alone_keeps_the_promises(own):
    """The same freezes: an owner need not notice by its own clock that its lease has run out."""
    play = Play(frozen(1, without=("deadline",)), *own, prepare=numbers_may_repeat)
    assert violations(play.run(), BACK_S) == [], play.logs[-5000:]
