"""Mixed load with restarts for a while: memory must not grow, answers must not get slower, nothing may be lost.

Two replicas on PostgreSQL: the first runs through, so that its memory can be watched; the second is stopped or killed
and started again all the time. On SQLite there is one service, and it is restarted. At the end everything acknowledged
must be in the log, and the log must replay.
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
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


@dataclass
class Seen:
    """What the clients saw: (moment, seconds) of every answer, and what was acknowledged."""

    answers: list[tuple[float, float]] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
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
    """Decides, reports, runs whole rounds, repeats itself and asks why, at a steady pace."""

    def __init__(self, port: int, number: int, pace_s: float, seen: Seen, done: threading.Event) -> None:
        super().__init__(daemon=True)
        self._port, self._pace_s, self._seen, self._done = port, pace_s, seen, done
        self._rng = random.Random(number)  # noqa: S311
        self._connection: http.client.HTTPConnection | None = None
        self._name = f"{port}-{number}"

    def run(self) -> None:
        """Until told to stop."""
        step = 0
        while not self._done.wait(self._pace_s * self._rng.uniform(0.5, 1.5)):
            step += 1
            try:
                self._one(step)
            except (OSError, http.client.HTTPException):
                self._seen.broken += 1
                self._connection = None
                time.sleep(0.1)

    def _one(self, step: int) -> None:
        headers = {"idempotency-key": f"{self._name}-{step}"} if step % 5 == 0 else {}
        made = self._ask("POST", "/v1/decisions", {"task": {"id": str(step)}}, headers)
        if made is None:
            return
        self._seen.decisions.append(made["id"])
        if headers:
            again = self._ask("POST", "/v1/decisions", {"task": {"id": str(step)}}, headers)
            if again is not None and again["id"] != made["id"]:
                self._seen.wrong.append("a repeated key made another decision")
        if step % 8:
            report = {"decision_id": made["id"], "reward": self._rng.random(), "id": f"{made['id']}-f"}
            if self._ask("POST", "/v1/feedback", report) is not None:
                self._seen.reports.append(str(report["id"]))
        if step % 10 == 0:
            self._ask("POST", "/v1/tasks", {"task": {"text": "x"}, "background": step % 20 == 0})
        if step % 7 == 0:
            self._ask("GET", f"/v1/decisions/{made['id']}")

    def _ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        begun = time.monotonic()
        self._connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        response = self._connection.getresponse()
        document = json.loads(response.read())
        self._seen.answers.append((begun, time.monotonic() - begun))
        if response.status in (200, 202):
            return document
        self._seen.refused += 1
        if response.status != 503:
            self._seen.wrong.append(f"{method} {path}: {response.status} {document}")
        return None


def p99_ms(answers: list[tuple[float, float]]) -> float:
    """The 99th percentile in milliseconds."""
    times = sorted(seconds for _, seconds in answers) or [0.0]
    return 1e3 * times[min(len(times) - 1, int(0.99 * len(times)))]


def slope(points: list[tuple[float, float]]) -> float:
    """Megabytes per hour, by least squares over the second half (the first half warms up)."""
    late = points[len(points) // 2 :]
    if len(late) < 3:
        return 0.0
    fitted = statistics.linear_regression([t for t, _ in late], [mb for _, mb in late])
    return 3600 * fitted.slope


def soak(services: list[Service], seconds: float, restart_s: float) -> list[tuple[float, float]]:
    """Restart the last service again and again; the memory of the first one over time."""
    begun, restarts, memory = time.monotonic(), 0, list[tuple[float, float]]()
    due = begun + restart_s
    while (now := time.monotonic()) - begun < seconds:
        memory.append((now - begun, services[0].memory_mb()))
        if now >= due and begun + seconds - now > 5:
            services[-1].end(signal.SIGKILL if restarts % 2 else signal.SIGTERM)
            services[-1].start()
            restarts, due = restarts + 1, time.monotonic() + restart_s
        time.sleep(0.5)
    print(f"restarts {restarts} (every second one by kill -9)")
    return memory


def check(database: str, seen: Seen) -> tuple[bool, int]:
    """Whether the log holds everything acknowledged and replays; and its length."""
    from bot_orch.eventlog.events import FeedbackGiven
    from bot_orch.eventlog.log import Log
    from bot_orch.eventlog.replay import replay

    log: Log
    if "://" in database:
        from bot_orch.eventlog.postgres import open_log as open_shared

        log = open_shared(database)
    else:
        from bot_orch.eventlog.sqlite import open_log

        log = open_log(database)
    refs, reports = set(), set()
    for row in log.read():
        refs.add(row.ref)
        if row.kind.startswith("feedback") and isinstance(event := row.event(), FeedbackGiven):
            reports.add(event.id)
    found = replay(log)
    log.close()
    lost = len(set(seen.decisions) - refs) + len(set(seen.reports) - reports)
    print(f"events {found.events}, decisions derived again {found.decisions}, lost {lost}, replay ok {found.ok}")
    return found.ok and lost == 0, found.events


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/soak.py --minutes 1")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=100.0, help="rounds per second, over all clients")
    parser.add_argument("--restart-every", type=float, default=20.0, metavar="S")
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
        clients = [
            Client(service.port, number, 8 / arguments.rate, seen, done)
            for number in range(8 // len(services))
            for service in services
        ]
        for client in clients:
            client.start()
        begun = time.monotonic()
        memory = soak(services, 60 * arguments.minutes, arguments.restart_every)
        done.set()
        for client in clients:
            client.join(30)
        for service in services:
            with suppress(subprocess.TimeoutExpired):
                service.end(signal.SIGTERM)
        sound, _ = check(database, seen)
    report(seen, memory, begun, sound=sound)


def report(seen: Seen, memory: list[tuple[float, float]], begun: float, *, sound: bool) -> None:
    """Print what was found; the exit status is 1 if something was lost or wrong."""
    length = memory[-1][0] if memory else 0.0
    first = [each for each in seen.answers if each[0] - begun < length / 4]
    last = [each for each in seen.answers if each[0] - begun > 3 * length / 4]
    print(f"answers {len(seen.answers)}, refused {seen.refused}, broken connections {seen.broken}")
    print(
        f"p99 {p99_ms(seen.answers):.1f} ms; first quarter {p99_ms(first):.1f} ms, last quarter {p99_ms(last):.1f} ms"
    )
    print(f"memory {memory[0][1]:.0f} MB at first, {memory[-1][1]:.0f} MB at last, slope {slope(memory):+.1f} MB/h")
    for text in seen.wrong[:5]:
        print(f"wrong: {text}")
    if seen.wrong or not sound:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
