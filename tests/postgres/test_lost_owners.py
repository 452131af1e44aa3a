"""Owners that die or freeze, as processes: another one takes the router, and the log stays one history."""

import contextlib
import http.client
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from owning import PLACES
from replica_running import Replica, call
from service_running import PATIENCE_S, until

from bot_orch.core.events import AttemptEnded, DecisionMade, FeedbackGiven, Noted
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay

LAUNCHER = Path(__file__).parent / "owning.py"
LEASE_S = 2.0
TEXT = """
version: 1
database: {database}
listen: {{port: {port}}}
log_level: error
limits: {{grace_s: 1, snapshot_every: 50}}
router: {{policy: bot}}
agents: [{{id: a, kind: simulated}}, {{id: b, kind: simulated}}]
"""


@contextlib.contextmanager
def pair(folder, database, *mode, text=TEXT):
    """Two processes, the owner of the router first."""
    url, replicas = f"{database}&lease_s={LEASE_S}", []
    try:
        for name in ("one", "two"):
            (place := folder / name).mkdir()
            replicas.append(Replica(folder, name, url, str(place), *mode, text=text, launcher=LAUNCHER))
            replicas[-1].folder = place
        starting = [threading.Thread(daemon=True, target=each.start) for each in replicas]
        for each in starting:
            each.start()
        for each in starting:
            each.join()
        yield owner_first(replicas)
    finally:
        for each in replicas:
            if each.child is not None:
                os.kill(each.child, signal.SIGCONT)
            each.close()


def owns(replica):
    """Whether a process serves the router itself: it is asked as another process would."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        asked = {"x-bot-orch-passed-on": "1"}
        return call(replica.port, "GET", "/v1/admin/state", headers=asked, timeout=5)[0] == 200
    return False


def owner_first(replicas):
    """The owner of the router and the other process, once one of them owns it."""
    return until(
        lambda: sum(map(owns, replicas)) == 1 and sorted(replicas, key=lambda each: not owns(each)), pause_s=0.1
    )


def decided(replica, acked=None):
    """One decision, whose id is noted if it was acknowledged."""
    try:
        status, made = call(replica.port, "POST", "/v1/decisions", {"task": {}}, timeout=20)
    except (OSError, http.client.HTTPException):
        return None
    if status != 200:
        assert status == 503, made
        return None
    if acked is not None:
        acked.append(made["id"])
    return made["id"]


def check_history(database, acked):
    log = open_log(database)
    events = [row.event() for row in log.read()]
    made = Counter(event.id for event in events if isinstance(event, DecisionMade))
    assert set(acked) <= set(made) and set(made.values()) <= {1}
    assert replay(log).ok
    log.close()


def test_a_killed_owner_is_followed_within_the_lease(tmp_path, database):
    with pair(tmp_path, database) as (one, two):
        acked, done = [], threading.Event()

        def client():
            while not done.is_set():
                decided(two, acked)
                time.sleep(0.02)

        thread = threading.Thread(daemon=True, target=client)
        thread.start()
        until(lambda: len(acked) > 20)
        one.end(signal.SIGKILL)
        began, known = time.monotonic(), len(acked)
        until(lambda: len(acked) > known + 5)
        assert time.monotonic() - began < 20 * LEASE_S  # a loaded machine is slow; the lease itself is shorter
        done.set()
        thread.join(PATIENCE_S)
        assert owns(two)
        one.start()  # it comes back, as a front
        until(lambda: decided(one, acked))
        assert owns(two)
    check_history(database, acked)


def frozen(one, two, acked, place="committing"):
    """Freeze the owner in a commit until the other one has the router; what it answers when it goes on."""
    answers = []
    assert decided(one, acked)
    (one.folder / place).touch()

    def ask():
        with contextlib.suppress(OSError, http.client.HTTPException):
            answers.append(keyed(one))

    asking = threading.Thread(daemon=True, target=ask)
    asking.start()
    until(lambda: not (one.folder / place).exists())
    until(lambda: owns(two), pause_s=0.1)
    os.kill(one.child, signal.SIGCONT)
    asking.join(PATIENCE_S)
    return answers[0]


def keyed(replica):
    """The answer to one decision under a key."""
    headers = {"idempotency-key": "k"}
    return call(replica.port, "POST", "/v1/decisions", {"task": {}}, headers, timeout=PATIENCE_S)


@pytest.mark.parametrize("place", PLACES)
def test_an_owner_that_was_frozen_in_a_commit_is_fenced_off(tmp_path, database, place):
    with pair(tmp_path, database) as (one, two):
        acked = []
        status, told = frozen(one, two, acked, place)
        assert status == 503 or place == "committed", told
        again = until(lambda: (answer := keyed(two))[0] == 200 and answer[1])
        assert status == 503 or told["id"] == again["id"], "it was written, and the next owner knows it"
        acked.append(again["id"])
        for each in (one, two):
            until(lambda each=each: decided(each, acked))
        assert owns(two) and not owns(one)
    check_history(database, acked)


def test_without_the_fence_it_acknowledges_what_the_next_owner_does_not_know(tmp_path, database):
    """Control: the same freeze, and the answer is wrong."""
    with pair(tmp_path, database, "fenceless") as (one, two):
        status, told = frozen(one, two, [])
        assert status == 200, told
        with pytest.raises(AssertionError):
            assert status == 503, "acknowledged by an owner whose lease another process has"


SLOW = TEXT.replace(
    "agents: [{{id: a, kind: simulated}}, {{id: b, kind: simulated}}]",
    """agents:
  - {{id: a, kind: simulated, params: {{median_s: 3.0, sigma: 0}}}}
  - {{id: person, kind: human, timeout_s: 60, price: {{per_call_usd: 2.0}}}}""",
).replace("router: {{policy: bot}}\n", "router: {{policy: bot, success_reward: 1.0}}\n", 1)


def submitted(replica, agent):
    body = {"task": {"text": "is it?"}, "eligible": [agent], "background": True}
    status, made = call(replica.port, "POST", "/v1/tasks", body)
    assert status == 202, made
    return made["id"]


def answered(replica, method, path, body=None):
    """The answer, once there is one."""
    return until(lambda: (found := call(replica.port, method, path, body))[0] != 503 and found)[1]


def ended(replica, task_id):
    view = answered(replica, "GET", f"/v1/tasks/{task_id}")
    return view if view["status"] == "completed" else None


def events_of(database, kind):
    log = open_log(database)
    try:
        return [event for row in log.read() if isinstance(event := row.event(), kind)]
    finally:
        log.close()


def test_rounds_and_tickets_of_a_frozen_owner_go_on_once(tmp_path, database):
    """The frozen one was waiting for a model and a person: what it gets, it keeps for itself."""
    with pair(tmp_path, database, text=SLOW) as replicas:
        victim, other = replicas
        tasks = [submitted(victim, "a") for _ in range(2)]
        asked = submitted(victim, "person")
        until(lambda: len(events_of(database, DecisionMade)) == 3)
        (ticket,) = until(lambda: answered(other, "GET", "/v1/queue")["tickets"])
        os.kill(victim.child, signal.SIGSTOP)
        for task_id in tasks:
            until(lambda task_id=task_id: ended(other, task_id))
        path = f"/v1/queue/{ticket['id']}"
        claim = until(lambda: answered(other, "POST", f"{path}/claim", {}).get("claim"))
        assert "error" not in answered(other, "POST", f"{path}/answer", {"text": "it is", "claim": claim})
        until(lambda: ended(other, asked))
        os.kill(victim.child, signal.SIGCONT)
        owner_first(replicas)
        time.sleep(1.0)  # its own rounds end
        for each in replicas:
            assert ended(each, asked)["output"] == "it is"
            assert not answered(each, "GET", "/v1/queue")["tickets"]
    assert len(events_of(database, DecisionMade)) == 3
    learned = Counter(event.decision_id for event in events_of(database, FeedbackGiven) if event.effect == "learned")
    assert len(learned) == learned.total() == 3
    assert [event.cost_usd for event in events_of(database, AttemptEnded) if event.agent == "person"] == [2.0]
    topics = Counter(event.topic for event in events_of(database, Noted))
    assert topics["queue.opened"] == topics["queue.answered"] == 1
    assert not {"queue.expired", "queue.withdrawn"} & set(topics), topics


def test_processes_that_slept_together_take_nothing_from_each_other(tmp_path, database):
    """As when the machine under both was suspended."""
    with pair(tmp_path, database, text=SLOW) as replicas:
        submitted(replicas[0], "person")
        until(lambda: answered(replicas[0], "GET", "/v1/queue")["tickets"])
        before = [owns(each) for each in replicas]
        for each in replicas:
            os.kill(each.child, signal.SIGSTOP)
        time.sleep(1.5 * LEASE_S)
        for each in replicas:
            os.kill(each.child, signal.SIGCONT)
        until(lambda: [owns(each) for each in replicas] == before, pause_s=0.1)
        assert len(answered(replicas[0], "GET", "/v1/queue")["tickets"]) == 1
    assert [event.topic for event in events_of(database, Noted)] == ["queue.opened"]
