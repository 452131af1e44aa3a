"""The clients of the soak: health checks, one retry, and the check of what they were told against the logs."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot_orch.core.events import DecisionMade, Event, FeedbackGiven, TaskEnded
from bot_orch.log.ledger import Ledger
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay

__all__ = ["Balancer", "Found", "Seen", "SoakClient", "States", "check", "get", "quantile_ms"]

AGAIN = (502, 503, 504)
States = set[tuple[int, str]]  # number of the last event, fingerprint


@dataclass
class Seen:
    """What the clients saw: (moment, seconds) of every answer, what was acknowledged by router, and errors."""

    answers: list[tuple[float, float]] = field(default_factory=list)
    decisions: dict[str, list[str]] = field(default_factory=dict)
    reports: dict[str, list[str]] = field(default_factory=dict)
    rounds: dict[str, list[str]] = field(default_factory=dict)
    keys: dict[str, list[str]] = field(default_factory=dict)
    retries: int = 0
    errors: list[str] = field(default_factory=list)


class Balancer(threading.Thread):
    """What a load balancer knows: which replicas are ready, by their last health check."""

    def __init__(self, ports: list[int], every_s: float = 0.25) -> None:
        super().__init__(daemon=True)
        self._every_s, self._done = every_s, threading.Event()
        self._ready = dict.fromkeys(ports, False)

    def run(self) -> None:
        """Check until told to stop."""
        while not self._done.wait(self._every_s):
            for port in self._ready:
                self._ready[port] = self._check(port)

    def stop(self) -> None:
        """Check no more."""
        self._done.set()

    def pick(self, rng: random.Random, not_again: int | None = None) -> int | None:
        """A replica that was ready, another one than ``not_again`` if there is one."""
        ready = [port for port, good in self._ready.items() if good]
        others = [port for port in ready if port != not_again]
        return rng.choice(others or ready) if ready else None

    def _check(self, port: int) -> bool:
        try:
            return get(port, "/health/ready", timeout=1.0)[0] == 200
        except (OSError, http.client.HTTPException, ValueError):
            return False


def get(port: int, path: str, timeout: float = 30.0) -> tuple[int, Any]:
    """Status and document of a page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


class SoakClient(threading.Thread):
    """Decides, reports, runs background rounds and asks why, for all routers, at a steady pace.

    Every request goes to a replica that is ready, and is tried once more at another one; what fails twice is an error.
    """

    def __init__(self, number: int, balancer: Balancer, routers: list[str], *, pace_s: float, seen: Seen) -> None:
        super().__init__(daemon=True)
        self._balancer, self._routers, self._pace_s, self._seen = balancer, routers, pace_s, seen
        self._rng = random.Random(number)  # noqa: S311
        self._name, self._done = f"c{number}", threading.Event()
        self._connections: dict[int, http.client.HTTPConnection] = {}

    def run(self) -> None:
        """Until told to stop."""
        step = 0
        while not self._done.wait(self._pace_s * self._rng.uniform(0.5, 1.5)):
            step += 1
            self._one(step)

    def stop(self) -> None:
        """End after the request that runs."""
        self._done.set()

    def _one(self, step: int) -> None:
        router, task = self._rng.choice(self._routers), f"{self._name}-{step}"
        door = "" if router == self._routers[0] else f"/r/{router}"
        made = self._ask("POST", f"{door}/v1/decisions", {"task": {"id": task}}, key=task)
        if made is None:
            return
        self._seen.decisions.setdefault(router, []).append(made["id"])
        self._seen.keys.setdefault(router, []).append(task)
        if step % 8:
            report = {"decision_id": made["id"], "reward": self._rng.random(), "id": f"{made['id']}-f"}
            if self._ask("POST", f"{door}/v1/feedback", report) is not None:
                self._seen.reports.setdefault(router, []).append(str(report["id"]))
        if step % 20 == 0 and door:
            body = {"task": {"text": "x"}, "background": True}
            told = self._ask("POST", f"{door}/v1/tasks", body, key=f"{task}-round")
            if told is not None:
                self._seen.rounds.setdefault(router, []).append(told["id"])
        if step % 7 == 0:
            self._ask("GET", f"{door}/v1/decisions/{made['id']}")

    def _ask(self, method: str, path: str, body: Any = None, *, key: str = "") -> Any:
        """The answer; nothing, and an error, if two replicas gave none."""
        problems, port = [], None
        for attempt in range(2):
            self._seen.retries += attempt
            port = self._balancer.pick(self._rng, port)
            if port is None:
                problems.append("no replica is ready")
                break
            status, document = self._once(port, method, path, body=body, key=key)
            if status in (200, 202):
                return document
            problems.append(f"{port}: {status} {document}")
            if status and status not in AGAIN:
                break
        self._seen.errors.append(f"{time.strftime('%H:%M:%S')} {method} {path}: {', then '.join(problems)}")
        return None

    def _once(self, port: int, method: str, path: str, *, body: Any, key: str) -> tuple[int, Any]:
        begun = time.monotonic()
        connection = self._connections.setdefault(port, http.client.HTTPConnection("127.0.0.1", port, timeout=10))
        headers = {"idempotency-key": key} if key else {}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            document = json.loads(response.read())
        except (OSError, http.client.HTTPException) as error:
            self._connections.pop(port).close()
            return 0, repr(error)
        self._seen.answers.append((begun, time.monotonic() - begun))
        return response.status, document


def quantile_ms(answers: list[tuple[float, float]], q: float) -> float:
    """A quantile of the times in milliseconds."""
    times = sorted(seconds for _, seconds in answers) or [0.0]
    return 1e3 * times[min(len(times) - 1, int(q * len(times)))]


@dataclass
class Found:
    """What the log of a router holds."""

    decisions: Counter[str] = field(default_factory=Counter)
    tasks: Counter[str] = field(default_factory=Counter)
    reports: Counter[str] = field(default_factory=Counter)
    learned: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)

    def take(self, kind: str, event: Event) -> None:
        """Count one event."""
        match event:
            case DecisionMade():
                self.formats[kind] += 1
                self.decisions[event.id] += 1
                self.tasks[event.task.id] += 1
            case FeedbackGiven():
                self.reports[event.id] += 1
                self.learned[event.decision_id] += event.effect == "learned"
            case TaskEnded():
                self.ended[event.id] += 1

    def lost(self, seen: Seen, router: str) -> int:
        """How much of what was acknowledged is missing."""
        told = (seen.decisions, self.decisions), (seen.reports, self.reports), (seen.rounds, self.ended)
        return sum(len(set(acked.get(router, ())) - set(there)) for acked, there in told)

    def doubled(self, seen: Seen, router: str) -> int:
        """How much counted more than once."""
        counted = (self.decisions, self.reports, self.learned, self.ended)
        twice = sum(times > 1 for each in counted for times in each.values())
        return twice + sum(self.tasks[key] > 1 for key in seen.keys.get(router, ()))


def check(databases: Mapping[str, str], seen: Seen, states: Mapping[str, States]) -> bool:
    """Whether the log of every router holds everything acknowledged, once, replays, and is what the replicas hold."""
    events = decisions = lost = doubled = 0
    formats: Counter[str] = Counter()
    sound = True
    for router, database in databases.items():
        log, found, ledger, held = open_log(database), Found(), Ledger(), States()
        for row in log.read():
            found.take(row.kind, row.event())
            ledger.take(row)
            if row.seq in {
                seq for seq, _ in states[router]
            }:  # a round may have gone on while the replicas were stopped
                held.add((row.seq, ledger.fingerprint()))
        replayed = replay(log)
        log.close()
        events, decisions = events + replayed.events, decisions + replayed.decisions
        lost, doubled = lost + found.lost(seen, router), doubled + found.doubled(seen, router)
        formats += found.formats
        if not replayed.ok or states[router] != held or len(held) != 1:
            sound = False
            print(f"wrong: {router}: replay ok {replayed.ok}, replicas held {states[router]}, the log says {held}")
    print(f"events {events}, decisions {decisions} ({dict(formats)}), all derived again {sound}")
    acked = sum(len(ids) for each in (seen.decisions, seen.reports, seen.rounds) for ids in each.values())
    print(f"acknowledged {acked}, lost {lost}, doubled {doubled}")
    return sound and lost == doubled == 0
