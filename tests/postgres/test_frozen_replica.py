"""A replica frozen as a whole process (SIGSTOP), thawed after its deadlines: the others go on, nothing counts twice."""

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from freezing import PLACES
from replica_running import CONFIG, Load, Replica, call, check, final_states, finish, more

from bot_orch.eventlog.events import AttemptEnded, DecisionMade, FeedbackGiven, Noted
from bot_orch.eventlog.stores.open import open_log
from bot_orch.eventlog.stores.postgres.log import PostgresLog
from bot_orch.eventlog.verification import replay

pytestmark = pytest.mark.slow
HOLD_S, LEASE_S = 2.5, 3.0
LAUNCHER = Path(__file__).parent / "freezing.py"
PEOPLE = CONFIG.replace("floor: 0.05", "floor: 0.05, success_reward: 1.0") + (
    "  - {{id: person, kind: human, settings: {{answer_within_s: 12}}, price: {{per_call_usd: 2.0}}}}\n"
    "queue: {{lease_s: 4.0, undo_s: 0.05}}\n"
)


@pytest.fixture
def url(database):
    return f"{database}&hold_s={HOLD_S}&lease_s={LEASE_S}"


@contextlib.contextmanager
def pair(folder, url, text=CONFIG):
    """Two replicas; each can be frozen at a place named by a file in its folder."""
    replicas = []
    try:
        for name in ("one", "two"):
            (place := folder / name).mkdir()
            replicas.append(Replica(folder, name, url, str(place), text=text, launcher=LAUNCHER))
            replicas[-1].start()
        yield replicas
    finally:
        for replica in replicas:
            thaw(replica)
            replica.close()


@contextlib.contextmanager
def loaded(replicas):
    """A client for each; what was acknowledged."""
    acked, done = {"decisions": [], "feedback": []}, threading.Event()
    clients = [Load(replica.port, acked, done) for replica in replicas]
    try:
        for client in clients:
            client.start()
        yield acked
    finally:
        done.set()
        for client in clients:
            client.join()


def freeze(replica):
    os.kill(replica.child, signal.SIGSTOP)
    until(lambda: frozen(replica))


def thaw(replica):
    if replica.child is not None:
        os.kill(replica.child, signal.SIGCONT)


def frozen(replica):
    return Path(f"/proc/{replica.child}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def until(condition, seconds=60.0, what="it did not happen"):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.01)
    return value


class Asking(threading.Thread):
    """One decision under a key, from a replica that may freeze meanwhile."""

    def __init__(self, port, key):
        super().__init__(daemon=True)
        self.port, self.key, self.answer = port, key, None
        self.start()

    def run(self):
        self.answer = ask(self.port, self.key)


def ask(port, key):
    return call(port, "POST", "/v1/decisions", {"task": {"id": key}}, {"idempotency-key": key}, timeout=60)


def decided(port, keys):
    """The decision under each key."""
    answers = {key: ask(port, key) for key in keys}
    assert {status for status, _ in answers.values()} == {200}, answers
    return {key: made["id"] for key, (_, made) in answers.items()}


def the_other_goes_on_and_keys_hold(url, replicas, acked, victim, other, asking):
    """While ``victim`` is frozen, and after it thaws; when the other has served again."""
    keys = [each.key for each in asking]
    begun = time.monotonic()
    elsewhere = decided(other.port, keys)
    served = time.monotonic()
    assert served - begun < 2 * HOLD_S + 10, "others wait for the deadline of the lock, not longer"
    more(acked, 20)
    time.sleep(max(0.0, begun + 1.2 * max(HOLD_S, LEASE_S) - time.monotonic()))
    assert frozen(victim)
    thaw(victim)
    victim.wait_ready()
    for each in asking:
        each.join(60)
        status, made = each.answer
        assert status == 503 or made["id"] == elsewhere[each.key], made
    until(lambda: ask(victim.port, keys[0])[0] == 200)  # 503 until it has noticed that it was cut off
    assert decided(victim.port, keys) == elsewhere
    more(acked, 20)
    states = finish(replicas)
    check(url, acked, states)
    log = open_log(url)
    tasks = Counter(e.task.id for row in log.read() if isinstance(e := row.event(), DecisionMade))
    log.close()
    assert {tasks[key] for key in keys} == {1}
    return served


@pytest.mark.parametrize("place", PLACES)
def test_a_replica_frozen_within_an_append(tmp_path, url, place):
    with pair(tmp_path, url) as replicas, loaded(replicas) as acked:
        victim, other = replicas
        more(acked)
        armed = time.monotonic()
        (tmp_path / "one" / place).touch()
        asking = [Asking(victim.port, f"{place}-{i}") for i in range(4)]
        until(lambda: frozen(victim))
        served = the_other_goes_on_and_keys_hold(url, replicas, acked, victim, other, asking)
    assert place == "committed" or served - armed > HOLD_S / 2, "it held the lock"
    print(f"frozen {place}: the other served after {served - armed:.1f} s")  # noqa: T201


def test_a_replica_frozen_while_it_waits_for_the_lock(tmp_path, url):
    """The server hands the lock to a client that is not there any more."""
    with pair(tmp_path, url) as replicas, loaded(replicas) as acked:
        victim, other = replicas
        more(acked)
        log = PostgresLog(url)
        log.begin(0)
        asking = [Asking(victim.port, f"waits-{i}") for i in range(4)]
        until(lambda: waiters(log) >= 2)
        freeze(victim)
        log.rollback()
        log.close()
        the_other_goes_on_and_keys_hold(url, replicas, acked, victim, other, asking)


def waiters(log):
    found = log._reader().execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return found.fetchone()[0]


def test_a_replica_frozen_again_and_again_while_it_serves(tmp_path, url):
    with pair(tmp_path, url) as replicas, loaded(replicas) as acked:
        for number, freeze_s in enumerate((0.1, 0.4, 2.5, 0.2)):
            more(acked)
            victim, other = replicas[number % 2], replicas[1 - number % 2]
            freeze(victim)
            time.sleep(freeze_s)
            assert decided(other.port, [f"again-{number}"])
            thaw(victim)
            victim.wait_ready()
        more(acked)
        states = finish(replicas)
        check(url, acked, states)


def submit(replica, agent):
    body = {"task": {"text": "is it?"}, "eligible": [agent], "background": True}
    status, made = call(replica.port, "POST", "/v1/tasks", body)
    assert status == 202, made
    return made["id"]


def queue(replica):
    return call(replica.port, "GET", "/v1/queue")[1]["tickets"]


def topics(url):
    log = open_log(url)
    found = Counter(e.topic for row in log.read() if isinstance(e := row.event(), Noted))
    log.close()
    return found


def test_a_ticket_of_a_frozen_replica_is_handed_on_once(tmp_path, url):
    """Also if the frozen one wakes up after the deadline, when a person has answered at the other one in time."""
    text = PEOPLE.replace("answer_within_s: 12", "answer_within_s: 20")
    with pair(tmp_path, url, text) as (victim, other):
        task_id = submit(victim, "person")
        (ticket,) = until(lambda: queue(other))
        assert call(victim.port, "POST", f"/v1/queue/{ticket['id']}/claim", {})[0] == 200
        begun = time.monotonic()
        freeze(victim)
        until(lambda: topics(url)["queue.adopted"])
        until(lambda: queue(other)[0]["status"] == "open")
        claim = call(other.port, "POST", f"/v1/queue/{ticket['id']}/claim", {})[1]["claim"]
        answer = {"text": "it is", "claim": claim}
        status, told = call(other.port, "POST", f"/v1/queue/{ticket['id']}/answer", answer)
        assert status == 200, told
        until(lambda: ended(other, task_id))
        time.sleep(max(0.0, begun + 20.2 - time.monotonic()))
        thaw(victim)
        victim.wait_ready()
        time.sleep(0.5)
        for replica in (other, victim):
            view = until(lambda replica=replica: ended(replica, task_id))
            assert view["output"] == "it is" and len(view["attempts"]) == 1
            until(lambda replica=replica: not queue(replica), what="the ticket is still in the queue")
        time.sleep(0.3)
        states = final_states((victim, other))
    once_each(url, states, {"queue.opened", "queue.adopted", "queue.lapsed", "queue.sealed", "replica.took"})


def ended(replica, task_id):
    view = call(replica.port, "GET", f"/v1/tasks/{task_id}")[1]
    return view if view["status"] == "completed" else None


def once_each(url, states, once):
    """The round was counted once: one decision, one attempt, one report, one end."""
    found = topics(url)
    assert {topic for topic, times in found.items() if times == 1} >= once
    assert not {"queue.expired", "queue.withdrawn"} & set(found), found
    log = open_log(url)
    events = [row.event() for row in log.read()]
    kinds = Counter(row.kind for row in log.read())
    report = replay(log)
    log.close()
    assert kinds["decision@2"] == kinds["task-ended@1"] == 1
    assert [event.reward for event in events if isinstance(event, FeedbackGiven)] == [1.0]
    assert [event.cost_usd for event in events if isinstance(event, AttemptEnded)] == [2.0]
    assert report.ok and {state["fingerprint"] for state in states} == {report.fingerprint}


def test_rounds_of_a_frozen_replica_are_learned_once(tmp_path, url):
    """The frozen one was waiting for a model: it gets its answer as well, and keeps it for itself."""
    text = PEOPLE.replace(
        "{{id: a, kind: simulated}}", "{{id: a, kind: simulated, settings: {{median_s: 3.0, sigma: 0}}}}"
    )
    with pair(tmp_path, url, text) as (victim, other):
        tasks = [submit(victim, "a") for _ in range(3)]
        until(lambda: kinds_in(url)["decision@2"] == 3)
        freeze(victim)
        for task_id in tasks:
            until(lambda task_id=task_id: ended(other, task_id))
        thaw(victim)
        victim.wait_ready()
        time.sleep(0.5)
        states = final_states((victim, other))
        kinds = kinds_in(url)
        assert kinds["task-ended@1"] == kinds["feedback@1"] == kinds["decision@2"] == 3, kinds
        assert len({state["fingerprint"] for state in states}) == 1


def kinds_in(url):
    log = open_log(url)
    found = Counter(row.kind for row in log.read())
    log.close()
    return found


def test_replicas_that_slept_together_take_nothing_from_each_other(tmp_path, url):
    """As when the machine under both was suspended."""
    text = PEOPLE.replace("answer_within_s: 12", "answer_within_s: 60")
    with pair(tmp_path, url, text) as replicas:
        for replica in replicas:
            submit(replica, "person")
        until(lambda: len(queue(replicas[0])) == len(queue(replicas[1])) == 2)
        for replica in replicas:
            freeze(replica)
        time.sleep(1.5 * LEASE_S)
        thaw(replicas[0])
        time.sleep(0.6)
        thaw(replicas[1])
        time.sleep(2 * LEASE_S)
        assert topics(url) == {"queue.opened": 2} and len(queue(replicas[0])) == 2
