"""Replicas come, go, are forgotten and come back."""

import json
import time

import pytest
from service_running import BASE, Running, free_port

from bot_orch.clock import SystemClock
from bot_orch.errors import StateFormatError
from bot_orch.eventlog.log import Row
from bot_orch.eventlog.stores.postgres.connect import MAIN_STREAM, prepare
from bot_orch.eventlog.stores.postgres.log import PostgresLog
from bot_orch.eventlog.stores.postgres.roster import ReplicaRoster
from bot_orch.service.config import parse_config
from bot_orch.service.storage.replica import make_writer

psycopg = pytest.importorskip("psycopg", reason="needs psycopg[binary]", exc_type=ImportError)


@pytest.fixture
def roster(database):
    """Makes rosters of replicas on one database."""
    prepare(database)
    made = []

    def make():
        made.append(ReplicaRoster(database, MAIN_STREAM))
        return made[-1]

    yield make
    for each in made:
        each.leave()


def names(peers):
    return {peer.id: peer.name for peer in peers}


def test_a_replica_that_was_forgotten_signs_in_again(roster, database):
    one, two = roster(), roster()
    first = one.join("one")
    one.publish([(7, "left")], 60.0)
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE bot_orch.replicas SET seen = seen - interval '2 days'")
    second = two.join("two")  # whoever joins forgets those who were not heard of for a day
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT id FROM bot_orch.replicas").fetchall() == [(second,)]
    assert two.publish([(7, "right")], 60.0) is None, "the dead are not compared with"
    assert names(one.beat(7, ["d"], 60.0)) == {first: "one", second: "two"}
    (back,) = (peer for peer in two.beat(7, [], 60.0) if peer.id == first)
    assert back.busy == ("d",) and back.seq == 7
    found = two.publish([], 60.0)
    assert found is not None and (found.seq, found.other) == (7, first), "now it is compared with again"
    third = roster()
    assert third.join("three") not in (first, second), "no number is given twice"


def test_only_states_of_the_same_engine_are_compared(roster, monkeypatch):
    one, two, three = roster(), roster(), roster()
    for number, each in enumerate((one, two, three)):
        each.join(f"r{number}")
    assert one.publish([(7, "left")], 60.0) is None
    with monkeypatch.context() as patched:
        patched.setattr("bot_orch.eventlog.stores.postgres.roster.ENGINE", "newer")
        assert two.publish([(7, "right")], 60.0) is None and one.publish([], 60.0) is None
        assert two.agreed() == 0
    found = three.publish([(7, "wrong")], 60.0)
    assert (found.seq, found.other, found.ours, found.theirs) == (7, one.id, "wrong", "left")


def test_a_service_that_was_forgotten_goes_on(database):
    texts = [BASE.format(database=json.dumps(database), port=free_port()) for _ in range(2)]
    one, two = (Running(parse_config(text)) for text in texts)
    try:
        with psycopg.connect(database) as connection:
            connection.execute("DELETE FROM bot_orch.replicas")
        made = one.post("/v1/decisions").json()
        end = time.monotonic() + 60
        while not all(b"bot_orch_replicas 2\n" in each.get("/metrics").body for each in (one, two)):
            assert time.monotonic() < end, "they do not see each other"
            time.sleep(0.05)
        told = two.post("/v1/feedback", {"decision_id": made["id"], "reward": 1.0})
        assert told.json()["effect"] == "learned"
    finally:
        one.stop()
        two.stop()
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM bot_orch.replicas").fetchone() == (0,), "both signed out"


def test_one_that_cannot_fold_the_log_signs_out(database):
    log = PostgresLog(database)
    log.append([Row(1, 10, "decision@2", "r", b"not an event")])
    log.commit()
    with pytest.raises(StateFormatError, match="cannot be read"):
        make_writer(log, SystemClock())
    log.close()
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM bot_orch.replicas").fetchone() == (0,)
