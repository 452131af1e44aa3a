"""Twenty routers on three replicas for twenty minutes: a client with health checks and one retry must see no error.

The main log begins as a release of the past left it (tests/fixtures/logs). The replicas begin as a release that writes
decisions in the format before this one, and are upgraded one after the other. Then they are restarted one after the
other, again and again, while a new configuration is applied (`bot-orch apply`) and rolled back; the first replica runs
through after its upgrade, so that its memory can be watched. Every interval prints a line. At the end everything
acknowledged must be in the logs once, every background round must have ended once, all replicas must hold the same
states, and every log must replay.
"""

from __future__ import annotations

import argparse
import json
import lzma
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

from _soaking import Balancer, Seen, SoakClient, States, check, get, quantile_ms

from bot_orch.log.stores.postgres.connect import prepare, with_stream
from postgres import postgres
from service import _wait

FIRST_PORT = 18_260
LOGS = Path(__file__).parents[1] / "tests" / "fixtures" / "logs"
OLD_LOG = "postgres-bot-killed"
KEPT = {"events": "seq, time_us, kind, ref, body", "keys": "key, seq, digest", "snapshots": "seq, body"}
SERVE = """
import sys
from bot_orch.cli import run_and_exit
sys.argv = ["bot-orch", "serve", *sys.argv[1:]]
run_and_exit()
"""
AGENTS = [{"id": name, "kind": "simulated", "params": {"median_s": 0.002}} for name in "abc"]
CLIENTS = 8
Memory = list[tuple[float, float]]


def old_log(url: str) -> None:
    """Fill the database with the log of a past release, in today's schema."""
    import psycopg

    tables = json.loads(lzma.decompress((LOGS / f"{OLD_LOG}.copy.json.xz").read_bytes()))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS bot_orch CASCADE")
        prepare(url)
        for table, rows in tables.items():
            with connection.cursor().copy(f"COPY bot_orch.{table} ({KEPT[table]}) FROM STDIN") as copy:
                copy.write(rows)
    connection.close()


def document(url: str, port: int, routers: list[str], *, changed: bool = False) -> str:
    """A configuration; the changed one has another floor and one more agent in every router but the first."""
    text = (LOGS / f"{OLD_LOG}.yaml").read_text().format(database=json.dumps(url), port=port)
    agents = [*AGENTS, {"id": "d", "kind": "simulated", "params": {"median_s": 0.002}}] if changed else AGENTS
    router = {"policy": "bot", "floor": 0.1 if changed else 0.05, "horizon_s": 60}
    more = {name: {"router": router, "agents": agents} for name in routers[1:]}
    text = text.replace("snapshot_every: 1000000", "snapshot_every: 2000")
    return f"{text}name: {routers[0]}\nrouters: {json.dumps(more)}\n"


class Service:
    """One replica that can be ended and started again, as the release before this one or as this one."""

    def __init__(self, config: Path, port: int) -> None:
        self.port, self.config = port, config
        self._process: subprocess.Popen[bytes] | None = None
        self._again = False
        self.log = config.with_suffix(".log").open("ab")

    def start(self, *, before: bool = False) -> None:
        """Start and wait until it is ready."""
        code = BEFORE + SERVE if before else SERVE
        command = [sys.executable, "-c", code, str(self.config), *(["--stored"] if self._again else [])]
        self._again = True  # by then the configuration may have changed
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log)  # noqa: S603
        _wait(self.port, seconds=120.0)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def memory_mb(self) -> float:
        """Resident memory."""
        if self._process is None:
            return 0.0
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


BEFORE = ""


@dataclass
class Soak:
    """What happens when, and what was seen of it."""

    services: list[Service]
    seen: Seen
    seconds: float
    restart_s: float
    changed: Path
    memory: Memory = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    notes: list[str] = field(default_factory=list)

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun

    def note(self, text: str) -> None:
        """Say what happens, with the minute."""
        print(f"minute {self.elapsed() / 60:.2f}: {text}", flush=True)

    def run(self) -> None:
        """Upgrade, change the configuration and roll it back, restarting replicas all the time."""
        self._wait_until(0.1)
        self.note("rolling upgrade")
        for service in self.services:
            self._restart(service)
        self.note("upgraded")
        turn = 0
        due = {0.4: self._change, 0.7: self._roll_back}
        while self.elapsed() < self.seconds - self.restart_s:
            for share in [share for share in due if self.elapsed() > share * self.seconds]:
                due.pop(share)()
            turn += 1
            self._restart(self.services[1 + turn % (len(self.services) - 1)])
            self._sleep(self.restart_s)
        self._wait_until(1.0)

    def _restart(self, service: Service) -> None:
        service.end()
        service.start()
        self.restarts.append(time.monotonic())
        self._sleep(0.5)

    def _change(self) -> None:
        self._apply(str(self.changed))

    def _roll_back(self) -> None:
        self._apply(str(self.services[0].config), "--rollback")

    def _apply(self, *arguments: str) -> None:
        begun = time.monotonic()
        command = [sys.executable, "-m", "bot_orch", "apply", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        told = " ".join((ran.stdout or ran.stderr).split())
        self.note(f"{' '.join(arguments[1:]) or 'apply'} took {time.monotonic() - begun:.1f} s: {told[:200]}")
        if ran.returncode:
            self.seen.errors.append(f"bot-orch apply: {told}")

    def _wait_until(self, share: float) -> None:
        self._sleep(share * self.seconds - self.elapsed())

    def _sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


class Watch(threading.Thread):
    """Notes the memory of the first replica, and prints a line per interval."""

    def __init__(self, soak: Soak, every_s: float) -> None:
        super().__init__(daemon=True)
        self._soak, self._every_s, self._done = soak, every_s, threading.Event()

    def run(self) -> None:
        """Until told to stop."""
        soak, due = self._soak, self._every_s
        print("minute, answers, p50 ms, p99 ms, longest ms, memory MB, restarts, retries, errors")
        while not self._done.wait(0.5):
            with suppress(OSError, ValueError, IndexError):  # it is being restarted
                soak.memory.append((soak.elapsed(), soak.services[0].memory_mb()))
            if soak.elapsed() >= due:
                self._line(due - self._every_s, due)
                due += self._every_s

    def stop(self) -> None:
        """Print no more."""
        self._done.set()

    def _line(self, since: float, until: float) -> None:
        soak, seen = self._soak, self._soak.seen
        part = [each for each in list(seen.answers) if since <= each[0] - soak.begun < until]
        mb = statistics.median([mb for at, mb in soak.memory if since <= at < until] or [0.0])
        restarts = sum(since <= at - soak.begun < until for at in soak.restarts)
        p50, p99, longest = (quantile_ms(part, q) for q in (0.5, 0.99, 1.0))
        numbers = f"{until / 60:.2f}, {len(part)}, {p50:.1f}, {p99:.1f}, {longest:.0f}, {mb:.1f}, {restarts}"
        print(f"{numbers}, {seen.retries}, {len(seen.errors)}", flush=True)


def slope(points: Memory) -> float:
    """Megabytes per hour, by least squares over the second half (the first half warms up)."""
    late = points[len(points) // 2 :]
    if len(late) < 3:
        return 0.0
    fitted = statistics.linear_regression([t for t, _ in late], [mb for _, mb in late])
    return 3600 * fitted.slope


def settled(services: list[Service], routers: list[str], seen: Seen) -> dict[str, States]:
    """The states of every router, once no background round runs and all replicas say the same."""
    found = {}
    for router in routers:
        door, end = "" if router == routers[0] else f"/r/{router}", time.monotonic() + 60
        for task_id in seen.rounds.get(router, ()):
            while _value(services[0].port, f"{door}/v1/tasks/{task_id}", "status") == "running":
                if time.monotonic() > end:
                    break
                time.sleep(0.1)
        while time.monotonic() < end:
            states = [get(service.port, f"{door}/v1/admin/state")[1] for service in services]
            if len({state.get("seq") for state in states}) == 1:
                break
            time.sleep(0.05)
        found[router] = {(int(state.get("seq", 0)), str(state.get("fingerprint"))) for state in states}
    return found


def _value(port: int, path: str, name: str) -> Any:
    return get(port, path)[1].get(name)


def report(soak: Soak, *, sound: bool) -> None:
    """Print what was found; the exit status is 1 if something was lost, doubled or wrong, or a client saw an error."""
    seen = soak.seen
    answers = [(at - soak.begun, seconds) for at, seconds in seen.answers]
    first = [each for each in answers if each[0] < soak.seconds / 4]
    last = [each for each in answers if each[0] > 3 * soak.seconds / 4]
    whole, early, late = (quantile_ms(part, 0.99) for part in (answers, first, last))
    steady = [point for point in soak.memory if point[0] > 0.3 * soak.seconds]
    print(f"restarts {len(soak.restarts)}, answers {len(answers)}, retries {seen.retries}, errors {len(seen.errors)}")
    print(f"p99 {whole:.1f} ms; first quarter {early:.1f} ms, last quarter {late:.1f} ms")
    ends = [steady[0][1], steady[-1][1]] if steady else [0.0, 0.0]
    print(f"memory {ends[0]:.0f} MB at first, {ends[1]:.0f} MB at last, slope {slope(steady):+.1f} MB/h")
    for text in seen.errors[:10]:
        print(f"error: {text}")
    if seen.errors or not sound:
        raise SystemExit(1)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/soak.py --minutes 1")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=40.0, help="rounds per second, over all clients")
    parser.add_argument("--routers", type=int, default=20)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--restart-every", type=float, metavar="S", help="default: a fortieth of the run")
    parser.add_argument("--interval", type=float, metavar="S", help="seconds per line (default: a tenth of the run)")
    parser.add_argument("--url", help="a PostgreSQL to use; its schema bot_orch is dropped")
    parser.add_argument("--keep-logs", type=Path, metavar="FOLDER", help="copy what the replicas logged there")
    arguments = parser.parse_args()
    seen, seconds = Seen(), 60 * arguments.minutes
    routers = ["old", *(f"r{number}" for number in range(1, arguments.routers))]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(postgres(arguments.url))
        old_log(url)
        services = []
        for port in range(FIRST_PORT, FIRST_PORT + arguments.replicas):
            (config := folder / f"{port}.yaml").write_text(document(url, port, routers))
            services.append(Service(config, port))
            stack.callback(services[-1].end, signal.SIGKILL)
            services[-1].start(before=True)
        changed = folder / "changed.yaml"
        changed.write_text(document(url, FIRST_PORT, routers, changed=True))
        balancer = Balancer([service.port for service in services])
        balancer.start()
        time.sleep(1.0)
        pace_s = CLIENTS / arguments.rate
        clients = [SoakClient(number, balancer, routers, pace_s=pace_s, seen=seen) for number in range(CLIENTS)]
        restart_s = arguments.restart_every or seconds / 40
        soak = Soak(services, seen, seconds, restart_s, changed)
        watch = Watch(soak, arguments.interval or seconds / 10)
        for client in clients:
            client.start()
        watch.start()
        soak.run()
        for client in clients:
            client.stop()
        watch.stop()
        for client in clients:
            client.join(30)
        balancer.stop()
        states = settled(services, routers, seen)
        for service in services:
            service.end()
        if arguments.keep_logs:
            arguments.keep_logs.mkdir(parents=True, exist_ok=True)
            for service in services:
                (arguments.keep_logs / f"{service.port}.log").write_bytes(Path(service.log.name).read_bytes())
        databases = {name: with_stream(url, "" if name == routers[0] else name) for name in routers}
        sound = check(databases, seen, states)
    report(soak, sound=sound)


if __name__ == "__main__":
    main()
