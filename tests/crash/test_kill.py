"""kill -9 under load, again and again: nothing acknowledged is lost, nothing counts twice, replay equals it.

``BOT_ORCH_KILLS`` sets the number of kills (50 unless set).
"""

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from service_running import PATIENCE_S, free_port, until

from bot_orch.core.events import DecisionMade, FeedbackGiven
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay

KILLS = int(os.environ.get("BOT_ORCH_KILLS", "50"))
CONFIG = """
version: 1
database: log.sqlite
listen: {{port: {port}}}
log_level: error
router: {{policy: bot, floor: 0.05}}
limits: {{snapshot_every: 150}}
agents:
  - {{id: a, kind: simulated}}
  - {{id: b, kind: simulated}}
  - {{id: c, kind: simulated}}
"""


class Servers:
    def __init__(self, folder, *mode):
        self.port = free_port()
        (folder / "config.yaml").write_text(CONFIG.format(port=self.port))
        command = [sys.executable, str(Path(__file__).with_name("launcher.py")), str(folder / "config.yaml"), *mode]
        self.launcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self):
        self.launcher.stdin.write("start\n")
        self.launcher.stdin.flush()
        child = int(self.launcher.stdout.readline())
        until(lambda: ready(self.port))
        return child

    def end(self, child, how):
        os.kill(child, how)
        assert self.launcher.stdout.readline() == "ended\n"

    def close(self):
        self.launcher.stdin.close()
        self.launcher.wait(PATIENCE_S)
        self.launcher.stdout.close()


def ready(port):
    try:
        return call(port, "GET", "/health/ready")[0] == 200
    except OSError:
        return False


def call(port, method, path, body=None, connection=None):
    own = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        own.request(method, path, None if body is None else json.dumps(body).encode())
        response = own.getresponse()
        return response.status, json.loads(response.read())
    finally:
        if connection is None:
            own.close()


class Load(threading.Thread):
    """Decides and reports until the server dies; remembers what was acknowledged."""

    def __init__(self, port, number, acked):
        super().__init__()
        self.port, self.number, self.acked = port, number, acked

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            for step in range(100_000):
                status, made = call(self.port, "POST", "/v1/decisions", {"task": {"id": str(step)}}, connection)
                assert status == 200, made
                self.acked["decisions"].append(made["id"])
                if step % 4:
                    body = {"decision_id": made["id"], "reward": (step % 10) / 10, "id": f"{made['id']}-f"}
                    status, told = call(self.port, "POST", "/v1/feedback", body, connection)
                    assert status == 200, told
                    self.acked["feedback"].append(body["id"])
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()


def under_load(acked, decisions, reports):
    """Wait until so many more were acknowledged."""
    goals = {"decisions": len(acked["decisions"]) + decisions, "feedback": len(acked["feedback"]) + reports}
    until(lambda: all(len(acked[kind]) >= goal for kind, goal in goals.items()), pause_s=0.001)


def kill_loop(folder, kills, *mode):
    """Run the loop; (what was acknowledged, live fingerprint at the end)."""
    rng, acked = random.Random(3), {"decisions": [], "feedback": []}  # noqa: S311
    servers = Servers(folder, *mode)
    try:
        for _ in range(kills):
            child = servers.start()
            workers = [Load(servers.port, number, acked) for number in range(4)]
            for worker in workers:
                worker.start()
            under_load(acked, 6 + rng.randrange(25), 4)
            time.sleep(rng.uniform(0.0, 0.02))
            servers.end(child, signal.SIGKILL)
            for worker in workers:
                worker.join()
        child = servers.start()
        state = call(servers.port, "GET", "/v1/admin/state")[1]
        servers.end(child, signal.SIGTERM)
    finally:
        servers.close()
    return acked, state


def test_nothing_acknowledged_is_lost_and_nothing_counts_twice(tmp_path):
    acked, state = kill_loop(tmp_path, KILLS)
    log = open_log(tmp_path / "log.sqlite")
    try:
        events = [row.event() for row in log.read()]
        decisions = Counter(event.id for event in events if isinstance(event, DecisionMade))
        reports = [event for event in events if isinstance(event, FeedbackGiven)]
        assert len(acked["decisions"]) > 5 * KILLS and len(acked["feedback"]) > 3 * KILLS, "there was load"
        assert set(acked["decisions"]) <= set(decisions) and set(decisions.values()) == {1}
        assert set(acked["feedback"]) <= {event.id for event in reports}
        learned = Counter(event.decision_id for event in reports if event.effect == "learned")
        assert set(learned.values()) == {1} and len({event.id for event in reports}) == len(reports)
        assert [row.seq for row in log.read()] == list(range(1, len(events) + 1))
        found = replay(log)
        assert found.ok and found.decisions == len(decisions)
        assert fold(log).fingerprint() == found.fingerprint
        assert fold(log, upto=state["seq"], use_snapshot=False).fingerprint() == state["fingerprint"]
    finally:
        log.close()


def test_the_check_catches_a_server_that_acknowledges_too_soon(tmp_path):
    for attempt in range(4):
        (folder := tmp_path / str(attempt)).mkdir()
        acked, _ = kill_loop(folder, 5, "early")
        log = open_log(folder / "log.sqlite")
        there = {row.ref for row in log.read()}
        log.close()
        if set(acked["decisions"]) - there:
            return
    raise AssertionError("a server that acknowledges before its commit was not caught")
