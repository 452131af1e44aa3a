"""A router is taken over from the last snapshot and the tail; the rest of the log is not read."""

import asyncio
import http.client
import json
import threading
import time
from functools import partial

import answering
import pytest
from service_running import PATIENCE_S, Running, until

from bot_orch.core.events import AttemptEnded, DecisionMade, FeedbackGiven
from bot_orch.log.ledger import Ledger, fold
from bot_orch.log.stores.postgres.connect import connect
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.service.config import parse_config
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.writer import Writer

TEXT = """
version: 1
database: {database}
listen: {{port: 0}}
log_level: error
limits: {{grace_s: {grace_s}}}
{more}
agents:
  - {{id: quick, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}}}
  - {{id: slow, kind: simulated, params: {{median_s: 1.5, sigma: 0.0}}}}
  - {{id: held, kind: python, path: 'answering:one_word_then_another'}}
"""
BEFORE, TAIL = 60, 12
REWARD = "router: {success_reward: 1.0}"


@pytest.fixture
def begin(database):
    running = []

    def start(grace_s=2.0, more=""):
        url = json.dumps(database)
        running.append(Running(parse_config(TEXT.format(database=url, grace_s=grace_s, more=more))))
        return running[-1]

    yield start
    for each in running:
        if each.thread.is_alive():
            each.stop()


def router(service):
    return service.runtime


def serves(service):
    return not router(service).away and router(service).loaded


def save(service):
    async def now():
        await router(service).writer.save()

    asyncio.run_coroutine_threadsafe(now(), service.loop).result(30)


@pytest.fixture
def folded(monkeypatch):
    """Numbers of the rows that are folded from the log."""
    seen, take = [], Ledger.take

    def counting(self, row):
        seen.append(row.seq)
        take(self, row)

    monkeypatch.setattr(Ledger, "take", counting)
    return seen


def leave_a_tail(service, monkeypatch, pairs=BEFORE):
    """Decisions and outcomes, a snapshot, some more; then the service ends as one that is killed, without saving."""
    until(lambda: serves(service))
    for number in range(pairs + TAIL):
        made = service.post("/v1/decisions", {"task": {}}, headers={"Idempotency-Key": f"k-{number}"}).json()["id"]
        if number % 3:
            service.post("/v1/feedback", {"decision_id": made, "reward": 1.0})
        if number == pairs:
            save(service)
    monkeypatch.setattr(Writer, "_save", not_now)
    service.stop()


async def not_now(_):
    raise StorageError("storage: a process that is killed saves nothing")


@pytest.mark.parametrize("saved", [True, False], ids=["snapshot", "control"])
def test_snapshot_and_tail_are_loaded(begin, database, folded, *, saved):
    with pytest.MonkeyPatch.context() as crash:
        leave_a_tail(begin(), crash)
    log = PostgresLog(database)
    snapshot, last = log.snapshot(), log.last()[0]
    assert last > 2 * BEFORE and TAIL <= last - snapshot.seq <= 3 * TAIL
    if not saved:
        with connect(database, autocommit=True) as connection:
            connection.execute("DELETE FROM snapshots")
    folded.clear()
    other = begin()
    until(lambda: serves(other))
    first = snapshot.seq + 1 if saved else 1
    assert folded == list(range(first, last + 1))
    again = other.post("/v1/decisions", {"task": {}}, headers={"Idempotency-Key": "k-0"}).json()["id"]
    made = next(row.event() for row in log.read() if row.holds(DecisionMade))
    assert again == made.id, "an old key is known, though the state does not hold it"
    whole = fold(log, use_snapshot=False)
    assert other.call(lambda: router(other).ledger.fingerprint()) == whole.fingerprint()
    log.close()


def test_a_move_does_not_wait_for_the_grace(begin):
    """Nothing is under way: the next process has the router long before the grace is over."""
    one = begin(grace_s=40.0)
    until(lambda: serves(one))
    other = begin(grace_s=40.0)
    begun = time.monotonic()
    one.stop()
    until(lambda: serves(other))
    assert time.monotonic() - begun < 20.0


def test_a_stop_hands_the_router_over_before_its_streams_end(begin, database):
    """Another process serves while the stream goes on here, and logs what it comes to."""
    answering.released.clear()
    one = begin(grace_s=600.0, more=REWARD)
    until(lambda: serves(one))
    other = begin(grace_s=600.0, more=REWARD)
    until(lambda: len(one.runtime.forwarder.directory.members) == 1)
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=PATIENCE_S)
    body = {"model": "held", "messages": [{"role": "user", "content": "x"}], "stream": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    response = connection.getresponse()
    decision = response.getheader("x-bot-orch-decision-id")
    assert b"One " in response.readline()
    stopping = threading.Thread(daemon=True, target=one.stop)
    stopping.start()
    try:
        until(lambda: serves(other))
        ask = partial(other.post, "/v1/decisions", {"task": {}})
        assert until(lambda: (answer := ask()).status == 200 and answer)
        assert decision in router(other).ledger.pending and stopping.is_alive()
    finally:
        answering.released.set()
    rest = response.read()
    connection.close()
    assert b"two" in rest and b"[DONE]" in rest and b"error" not in rest
    stopping.join(PATIENCE_S)
    assert not stopping.is_alive()
    until(lambda: decision not in router(other).ledger.pending)
    log = PostgresLog(database)
    events = [row.event() for row in log.read()]
    log.close()
    assert [each.ending for each in events if isinstance(each, AttemptEnded)] == ["completed"]
    (learned,) = [each for each in events if isinstance(each, FeedbackGiven)]
    assert (learned.decision_id, learned.reward) == (decision, 1.0)


def test_an_owner_that_is_alone_keeps_its_router_until_its_streams_end(begin, database):
    answering.released.clear()
    one = begin(grace_s=600.0, more=REWARD)
    until(lambda: serves(one))
    chat, answers = {"model": "held", "messages": [{"role": "user", "content": "x"}]}, []
    asking = threading.Thread(daemon=True, target=lambda: answers.append(one.post("/v1/chat/completions", chat)))
    asking.start()
    until(lambda: router(one).in_flight)
    stopping = threading.Thread(daemon=True, target=one.stop)
    stopping.start()
    until(lambda: router(one).away)
    answering.released.set()
    asking.join(PATIENCE_S)
    stopping.join(PATIENCE_S)
    assert answers[0].status == 200
    log = PostgresLog(database)
    assert [event.reward for row in log.read() if isinstance(event := row.event(), FeedbackGiven)] == [1.0]
    log.close()


def test_a_move_waits_for_calls(begin):
    one = begin(grace_s=40.0)
    until(lambda: serves(one))
    other, answers = begin(grace_s=40.0), []
    chat = {"model": "slow", "messages": [{"role": "user", "content": "x"}]}
    asking = threading.Thread(daemon=True, target=lambda: answers.append(one.post("/v1/chat/completions", chat)))
    asking.start()
    until(lambda: router(one).in_flight)
    one.stop()
    asking.join()
    assert answers[0].status == 200
    until(lambda: serves(other))
    ask = partial(other.post, "/v1/decisions", {"task": {}})
    assert until(lambda: (answer := ask()).status == 200 and answer)
