"""Two processes are upgraded one after the other under load: nothing acknowledged is lost, nothing counts twice."""

import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from releases import ENGINE, NEXT_ENGINE, become_next
from replica_running import Load, Replica, check, finish, more

from bot_orch.core.events import DecisionMade
from bot_orch.errors import StateFormatError
from bot_orch.log.log import Row
from bot_orch.log.stores.open import open_log

LAUNCHER = Path(__file__).parent / "releases.py"


class Upgradable(Replica):
    """A process that starts again as the next release, at the same address."""

    release = "start"

    def start(self):
        self.launcher.stdin.write(f"{self.release}\n")
        self.launcher.stdin.flush()
        self.child = int(self.launcher.stdout.readline())
        self.wait_ready()

    def restart(self, release, how=signal.SIGTERM):
        self.end(how)
        self.release = release
        self.start()


def engines(database):
    log = open_log(database)
    try:
        return Counter(event.engine for row in log.read() if isinstance(event := row.event(), DecisionMade))
    finally:
        log.close()


def test_two_processes_are_upgraded_one_after_the_other(tmp_path, database, monkeypatch):
    url, done = f"{database}&lease_s=1.5", threading.Event()
    replicas = [Upgradable(tmp_path, name, url, launcher=LAUNCHER) for name in ("one", "two")]
    acked = {"decisions": [], "feedback": []}
    clients = [Load(replica.port, acked, done) for replica in replicas for _ in range(2)]
    one, two = replicas
    try:
        for each in (*replicas, *clients):
            each.start()
        more(acked)
        two.restart("next")
        more(acked)  # one release each
        one.restart("start")  # its routers go to the next release, and come back from it or stay
        more(acked)
        two.restart("next", signal.SIGKILL)  # the release before takes over from the next one
        more(acked)
        one.restart("next")
        more(acked)
        states = finish(replicas)
    finally:
        done.set()
        for client in clients:
            client.join()
        for replica in replicas:
            replica.close()
    found = engines(database)
    assert set(found) == {ENGINE, NEXT_ENGINE} and min(found.values()) >= 10, found
    with monkeypatch.context() as patched:
        become_next(patched.setattr)  # the log is checked by the release that has it now
        check(database, acked, states)


def test_an_event_of_a_release_further_ahead_is_refused():
    """An event that this release does not know stops it with a reason: the guard for releases further apart."""
    with pytest.raises(StateFormatError, match="row 1: an event cannot be read .* a newer release wrote it"):
        Row(1, 1, "later@1", "", b"\x92\x63\x01").event()
