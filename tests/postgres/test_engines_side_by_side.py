"""Replicas of two releases on one log: a rolling update does not stop anybody."""

import time
from pathlib import Path

import pytest
from newer_launcher import NEWER
from replica_running import Replica, call
from service_running import until

from bot_orch.core.engine import ENGINE
from bot_orch.eventlog.events import Configured, DecisionMade
from bot_orch.eventlog.ledger import fold
from bot_orch.eventlog.stores.open import open_log
from bot_orch.eventlog.verification import replay

LAUNCHER = Path(__file__).with_name("newer_launcher.py")


@pytest.fixture
def pair(tmp_path, database):
    made = Replica(tmp_path, "today", database), Replica(tmp_path, "newer", database, launcher=LAUNCHER)
    try:
        for each in made:
            each.start()
        yield made
    finally:
        for each in made:
            each.close()


def state(replica):
    return call(replica.port, "GET", "/v1/admin/state")[1]


def rounds(replica, number, reporter):
    for step in range(number):
        status, made = call(replica.port, "POST", "/v1/decisions", {"task": {"id": str(step)}})
        assert status == 200, made
        told = {"decision_id": made["id"], "reward": (step % 3) / 2}
        status, answer = call(reporter.port, "POST", "/v1/feedback", told)
        assert status == 200 and answer["effect"] == "learned", answer


def test_each_folds_what_the_other_decides(pair, database):
    today, newer = pair
    for _ in range(2):
        rounds(today, 6, reporter=newer)
        rounds(newer, 6, reporter=today)
    end = state(today)["seq"]
    until(lambda: state(today)["seq"] == state(newer)["seq"] == end)
    assert state(today)["fingerprint"] != state(newer)["fingerprint"], "else there was nothing to put up with"
    time.sleep(3.0)  # some beats: states are published and compared while nothing happens
    assert [call(each.port, "GET", "/health/ready")[0] for each in pair] == [200, 200]
    rounds(today, 2, reporter=newer)
    log = open_log(database)
    try:
        events = [row.event() for row in log.read()]
        assert [event.engine for event in events if isinstance(event, Configured)] == [ENGINE, NEWER]
        assert [event.engine for event in events if isinstance(event, DecisionMade)].count(NEWER) == 12
        found = replay(log)
        assert found.ok and found.derived == 14 and [s.engine for s in found.stretches] == [NEWER, NEWER]
        until(lambda: state(today)["fingerprint"] == fold(log, use_snapshot=False).fingerprint())
    finally:
        log.close()
