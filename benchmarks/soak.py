"""Mixed load with restarts for a while: memory must not grow, answers must not get slower, nothing may be lost.

Two replicas on PostgreSQL: the first runs through, so that its memory can be watched; the second is stopped or killed
and started again all the time. On SQLite there is one service, and it is restarted. Every interval prints a line. At
the end everything acknowledged must be in the log once, a key must have made one decision although it was repeated at
the other replica, every background round must have ended once, both replicas must hold the same state, and the log must
replay. Times are those of answers; a request that finds nobody counts as broken, not as slow.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot_orch.eventlog.events import DecisionMade, Event, FeedbackGiven, TaskEnded
from bot_orch.eventlog.stores.open import open_log
from bot_orch.eventlog.verification import replay
from postgres import postgres
from service import SERVER, _wait

CONFIG = """
version: 1
database: {database}
listen: {{port: {port}}}
log_level: error
router: {{policy: bot, floor: 0.05, horizon_s: 20}}
limits: {{snapshot_every: 5000}}
agents:
  - {{id: a, kind: simulated, settings: {{median_s: 0.002}}}}
  - {{id: b, kind: simulated, settings: {{median_s: 0.002}}}}
  - {{id: c, kind: simulated, settings: {{median_s: 0.002}}}}
"""
PORTS = (18_260, 18_261)
Memory = list[tuple[float, float]]


@dataclass
class Seen:
    """What the clients saw: (moment, seconds) of every answer, and what was acknowledged."""

    answers: list[tuple[float, float]] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    rounds: list[str] = field(default_factory=list)
    keyed: dict[str, str] = field(default_factory=dict)
    restarts: list[float] = field(default_factory=list)
    refused: int = 0
    broken: int = 0
    wrong: list[str] = field(default_factory=list)


class Service:
    """One process that can be ended and started again."""

    def __init__(self, folder: Path, database: str, port: int) -> None:
        self.port = port
        self._config = folder / f"{port}.yaml"
        self._config.write_text(CONFIG.format(database=json.dumps(database), port=port))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until it is ready."""
        command = [sys.executable, "-c", SERVER, str(self._config), "grouped"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
        _wait(self.port, seconds=60.0)

    def end(self, how: signal.Signals) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def memory_mb(self) -> float:
        """Resident memory."""
        if self._process is None:
            return 0.0
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


class Client(threading.Thread):
    """Decides, reports, runs whole rounds, repeats itself and asks why, at a steady pace.

    It keeps to the first of ``ports``; only a key is repeated at the others too.
    """

    def __init__(self, ports: list[int], number: int, pace_s: float, seen: Seen, done: threading.Event) -> None:
        super().__init__(daemon=True)
        self._ports, self._pace_s, self._seen, self._done = ports, pace_s, seen, done
        self._rng = random.Random(number)  # noqa: S311
        self._connections: dict[int, http.client.HTTPConnection] = {}
        self._name = f"{ports[0]}-{number}"

    def run(self) -> None:
        """Until told to stop."""
        step = 0
        while not self._done.wait(self._pace_s * self._rng.uniform(0.5, 1.5)):
            step += 1
            if self._one(step) is None:
                time.sleep(0.1)

    def _one(self, step: int) -> Any:
        task = f"{self._name}-{step}"
        made = self._keyed(task) if step % 5 == 0 else self._ask("POST", "/v1/decisions", {"task": {"id": task}})
        if made is None:
            return None
        self._seen.decisions.append(made["id"])
        if step % 8:
            report = {"decision_id": made["id"], "reward": self._rng.random(), "id": f"{made['id']}-f"}
            if self._ask("POST", "/v1/feedback", report) is not None:
                self._seen.reports.append(str(report["id"]))
        if step % 10 == 0:
            background = step % 20 == 0
            told = self._ask("POST", "/v1/tasks", {"task": {"text": "x"}, "background": background})
            if background and told is not None:
                self._seen.rounds.append(told["id"])
        if step % 7 == 0:
            self._ask("GET", f"/v1/decisions/{made['id']}")
        return made

    def _keyed(self, task: str) -> Any:
        """Ask every replica under one key, until all have answered or one is away for long."""
        answers = []
        for port in self._ports:
            for _ in range(50):
                made = self._ask("POST", "/v1/decisions", {"task": {"id": task}}, {"idempotency-key": task}, port)
                if made is not None:
                    answers.append(made)
                    break
                time.sleep(0.1)
        if len({made["id"] for made in answers}) > 1:
            self._seen.wrong.append("a repeated key made another decision")
        if not answers:
            return None
        self._seen.keyed[task] = answers[0]["id"]
        return answers[0]

    def _ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, port: int | None = None
    ) -> Any:
        """The answer; nothing if it was refused or the connection broke."""
        port, begun = port or self._ports[0], time.monotonic()
        if port not in self._connections:
            self._connections[port] = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            self._connections[port].request(method, path, None if body is None else json.dumps(body), headers or {})
            response = self._connections[port].getresponse()
            document = json.loads(response.read())
        except (OSError, http.client.HTTPException):
            self._seen.broken += 1
            self._connections.pop(port).close()
            return None
        self._seen.answers.append((begun, time.monotonic() - begun))
        if response.status in (200, 202):
            return document
        self._seen.refused += 1
        if response.status != 503:
            self._seen.wrong.append(f"{method} {path}: {response.status} {document}")
        return None


def quantile_ms(answers: list[tuple[float, float]], q: float) -> float:
    """A quantile of the times in milliseconds."""
    times = sorted(seconds for _, seconds in answers) or [0.0]
    return 1e3 * times[min(len(times) - 1, int(q * len(times)))]


def slope(points: Memory) -> float:
    """Megabytes per hour, by least squares over the second half (the first half warms up)."""
    late = points[len(points) // 2 :]
    if len(late) < 3:
        return 0.0
    fitted = statistics.linear_regression([t for t, _ in late], [mb for _, mb in late])
    return 3600 * fitted.slope


def soak(services: list[Service], seen: Seen, seconds: float, restart_s: float, every_s: float) -> Memory:
    """Restart the last service again and again, print a line per interval; the memory of the first one over time."""
    begun, memory = time.monotonic(), list[tuple[float, float]]()
    due, line_due = begun + restart_s, begun + every_s
    print("minute, answers, p50 ms, p99 ms, longest ms, memory MB, restarts")
    while (now := time.monotonic()) - begun < seconds:
        memory.append((now - begun, services[0].memory_mb()))
        if now >= due and begun + seconds - now > 5:
            services[-1].end(signal.SIGKILL if len(seen.restarts) % 2 else signal.SIGTERM)
            services[-1].start()
            seen.restarts.append(now)
            due = time.monotonic() + restart_s
        if now >= line_due:
            print_interval(seen, memory, begun, line_due - every_s, line_due)
            line_due += every_s
        time.sleep(0.5)
    if line_due - begun <= seconds:
        print_interval(seen, memory, begun, line_due - every_s, line_due)
    return memory


def print_interval(seen: Seen, memory: Memory, begun: float, since: float, until: float) -> None:
    """How it went between two moments."""
    part = [each for each in list(seen.answers) if since <= each[0] < until]
    mb = statistics.median([mb for at, mb in memory if since <= begun + at < until] or [0.0])
    restarts = sum(since <= at < until for at in seen.restarts)
    p50, p99, longest = (quantile_ms(part, q) for q in (0.5, 0.99, 1.0))
    minute = (until - begun) / 60
    print(f"{minute:.2f}, {len(part)}, {p50:.1f}, {p99:.1f}, {longest:.0f}, {mb:.1f}, {restarts}", flush=True)


def same_state(services: list[Service]) -> bool:
    """Whether all come to hold the same after the same event, soon."""
    for _ in range(200):
        states = [_get(service.port, "/v1/admin/state") for service in services]
        if len({state["seq"] for state in states}) == 1:
            return len({state["fingerprint"] for state in states}) == 1
        time.sleep(0.05)
    return False


def rounds_end(port: int, rounds: list[str], seconds: float = 30.0) -> None:
    """Wait until no background round runs any more."""
    end = time.monotonic() + seconds
    for task_id in rounds:
        while _get(port, f"/v1/tasks/{task_id}")["status"] == "running" and time.monotonic() < end:
            time.sleep(0.1)


def _get(port: int, path: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


@dataclass
class Found:
    """What the log holds."""

    decisions: Counter[str] = field(default_factory=Counter)
    tasks: Counter[str] = field(default_factory=Counter)
    reports: Counter[str] = field(default_factory=Counter)
    learned: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)

    def take(self, event: Event) -> None:
        """Count one event."""
        match event:
            case DecisionMade():
                self.decisions[event.id] += 1
                self.tasks[event.task.id] += 1
            case FeedbackGiven():
                self.reports[event.id] += 1
                self.learned[event.decision_id] += event.effect == "learned"
            case TaskEnded():
                self.ended[event.id] += 1


def lost_and_doubled(found: Found, seen: Seen) -> tuple[int, int]:
    """How much of what was acknowledged is missing, and how much counted more than once."""
    lost = sum(len(set(acked) - set(there)) for acked, there in acknowledged(found, seen))
    counted = (found.decisions, found.reports, found.learned, found.ended)
    doubled = sum(times > 1 for each in counted for times in each.values())
    doubled += sum(found.tasks[task] > 1 for task in seen.keyed)
    return lost, doubled


def acknowledged(found: Found, seen: Seen) -> list[tuple[list[str], Counter[str]]]:
    """What clients were told, beside what is there."""
    return [(seen.decisions, found.decisions), (seen.reports, found.reports), (seen.rounds, found.ended)]


def check(database: str, seen: Seen) -> bool:
    """Whether the log holds everything acknowledged, once, and replays."""
    log = open_log(database)
    found = Found()
    for row in log.read():
        found.take(row.event())
    replayed = replay(log)
    log.close()
    lost, doubled = lost_and_doubled(found, seen)
    print(f"events {replayed.events}, decisions derived again {replayed.decisions}, replay ok {replayed.ok}")
    print(f"keys repeated {len(seen.keyed)}, background rounds {len(seen.rounds)}, lost {lost}, doubled {doubled}")
    return replayed.ok and lost == doubled == 0


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/soak.py --minutes 1")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=100.0, help="rounds per second, over all clients")
    parser.add_argument("--restart-every", type=float, default=20.0, metavar="S")
    parser.add_argument("--interval", type=float, metavar="S", help="seconds per line (default: a tenth of the run)")
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--url", help="a PostgreSQL to use, with an empty database")
    arguments = parser.parse_args()
    seen, done = Seen(), threading.Event()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shared = arguments.database == "postgresql"
        database = stack.enter_context(postgres(arguments.url)) if shared else str(folder / "log.sqlite")
        services = [Service(folder, database, port) for port in PORTS[: 2 if shared else 1]]
        for service in services:
            stack.callback(service.end, signal.SIGKILL)
            service.start()
        ports = [service.port for service in services]
        clients = [
            Client(ports[i:] + ports[:i], number, 8 / arguments.rate, seen, done)
            for number in range(8 // len(services))
            for i in range(len(services))
        ]
        for client in clients:
            client.start()
        begun, seconds = time.monotonic(), 60 * arguments.minutes
        memory = soak(services, seen, seconds, arguments.restart_every, arguments.interval or seconds / 10)
        done.set()
        for client in clients:
            client.join(30)
        rounds_end(ports[0], seen.rounds)
        same = same_state(services)
        print(f"states of all services equal {same}")
        for service in services:
            with suppress(subprocess.TimeoutExpired):
                service.end(signal.SIGTERM)
        sound = check(database, seen) and same
    report(seen, memory, begun, sound=sound)


def report(seen: Seen, memory: Memory, begun: float, *, sound: bool) -> None:
    """Print what was found; the exit status is 1 if something was lost, doubled or wrong."""
    length = memory[-1][0] if memory else 0.0
    first = [each for each in seen.answers if each[0] - begun < length / 4]
    last = [each for each in seen.answers if each[0] - begun > 3 * length / 4]
    whole, early, late = (quantile_ms(part, 0.99) for part in (seen.answers, first, last))
    print(f"restarts {len(seen.restarts)} (every second one by kill -9)")
    print(f"answers {len(seen.answers)}, refused {seen.refused}, broken connections {seen.broken}")
    print(f"p99 {whole:.1f} ms; first quarter {early:.1f} ms, last quarter {late:.1f} ms")
    print(f"memory {memory[0][1]:.0f} MB at first, {memory[-1][1]:.0f} MB at last, slope {slope(memory):+.1f} MB/h")
    for text in seen.wrong[:5]:
        print(f"wrong: {text}")
    if seen.wrong or not sound:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
