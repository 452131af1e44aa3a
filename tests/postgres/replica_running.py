"""Replicas in processes of their own, load on them, and the check of what they have left in the log."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from service_running import free_port

from bot_orch.core.events import DecisionMade, FeedbackGiven
from bot_orch.log.verification import replay

LAUNCHER = Path(__file__).parents[1] / "crash" / "launcher.py"
CONFIG = """
version: 1
database: {database}
listen: {{port: {port}}}
log_level: error
router: {{policy: bot, floor: 0.05}}
limits: {{snapshot_every: 150}}
agents:
  - {{id: a, kind: simulated}}
  - {{id: b, kind: simulated}}
  - {{id: c, kind: simulated}}
"""


def call(port, method, path, body=None, headers=None, timeout=60):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, None if body is None else json.dumps(body).encode(), headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


class Replica:
    """A service in a process of its own that can be killed and started again quickly."""

    def __init__(self, folder, name, database, *mode, text=CONFIG, launcher=LAUNCHER):
        self.port = free_port()
        config = folder / f"{name}.yaml"
        config.write_text(text.format(database=json.dumps(database), port=self.port))
        command = [sys.executable, str(launcher), str(config), *mode]
        self.launcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.child = None

    def start(self):
        self.launcher.stdin.write("start\n")
        self.launcher.stdin.flush()
        self.child = int(self.launcher.stdout.readline())
        self.wait_ready()

    def wait_ready(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if call(self.port, "GET", "/health/ready", timeout=10)[0] == 200:
                    return
            time.sleep(0.02)
        raise AssertionError("the replica is not ready")

    def end(self, how=signal.SIGTERM):
        os.kill(self.child, how)
        assert self.launcher.stdout.readline() == "ended\n"
        self.child = None

    def close(self):
        if self.child is not None:
            self.end(signal.SIGKILL)
        self.launcher.stdin.close()
        self.launcher.wait(60)
        self.launcher.stdout.close()


class Load(threading.Thread):
    """Decides and reports until told to stop, whatever breaks; remembers what was acknowledged."""

    def __init__(self, port, acked, done):
        super().__init__()
        self.port, self.acked, self.done = port, acked, done

    def run(self):
        for step in range(1_000_000):
            if self.done.is_set():
                return
            try:
                self.one(step)
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)

    def one(self, step):
        status, made = call(self.port, "POST", "/v1/decisions", {"task": {"id": str(step)}})
        if status != 200:
            assert status == 503, made
            time.sleep(0.02)
            return
        self.acked["decisions"].append(made["id"])
        if step % 4:
            body = {"decision_id": made["id"], "reward": (step % 10) / 10, "id": f"{made['id']}-f"}
            status, told = call(self.port, "POST", "/v1/feedback", body)
            assert status in (200, 503), told
            if status == 200:
                self.acked["feedback"].append(body["id"])


@contextlib.contextmanager
def under_load(folder, database, *mode):
    """Two replicas with two clients each; (replicas, what was acknowledged)."""
    replicas = [Replica(folder, name, database, *mode) for name in ("one", "two")]
    acked, done = {"decisions": [], "feedback": []}, threading.Event()
    clients = [Load(replica.port, acked, done) for replica in replicas for _ in range(2)]
    try:
        for each in (*replicas, *clients):
            each.start()
        yield replicas, acked
    finally:
        done.set()
        for client in clients:
            if client.ident is not None:
                client.join()
        for replica in replicas:
            replica.close()


def more(acked, number=20):
    """Wait until so many more decisions were acknowledged."""
    goal, end = len(acked["decisions"]) + number, time.monotonic() + 60
    while len(acked["decisions"]) < goal:
        assert time.monotonic() < end, "nothing is acknowledged any more"
        time.sleep(0.005)


def check(database, acked, states):
    from bot_orch.log.stores.open import open_log

    log = open_log(database)
    try:
        events = [row.event() for row in log.read()]
        decisions = Counter(event.id for event in events if isinstance(event, DecisionMade))
        reports = [event for event in events if isinstance(event, FeedbackGiven)]
        assert set(acked["decisions"]) <= set(decisions) and set(decisions.values()) == {1}
        assert set(acked["feedback"]) <= {event.id for event in reports}
        learned = Counter(event.decision_id for event in reports if event.effect == "learned")
        assert set(learned.values()) == {1} and len({event.id for event in reports}) == len(reports)
        assert [row.seq for row in log.read()] == list(range(1, len(events) + 1))
        found = replay(log)
        assert found.ok and {state["fingerprint"] for state in states} == {found.fingerprint}
    finally:
        log.close()


def final_states(replicas):
    """The states of both, once both have folded everything."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        states = [call(replica.port, "GET", "/v1/admin/state")[1] for replica in replicas]
        if states[0]["seq"] == states[1]["seq"]:
            return states
        time.sleep(0.05)
    raise AssertionError("the replicas did not reach the same event")


def finish(replicas):
    """Stop the load; the states of both replicas, which are then stopped in order."""
    for client in [each for each in threading.enumerate() if isinstance(each, Load)]:
        client.done.set()
        client.join()
    states = final_states(replicas)
    for replica in replicas:
        replica.end()
    return states
