"""What more processes cost and bring: owners and bystanders, waits for locks, workers on one machine, replicas.

    python benchmarks/cluster.py              # everything
    python benchmarks/cluster.py workers      # one part: bystander, locks, workers, replicas or plan

Processor time is that of the service's processes, from /proc, over the decisions they made; wall time includes wrk and
PostgreSQL, which run on the same cores. `plan` prints what a rate of decisions needs, from the numbers of its own run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postgres import fresh, postgres
from service import _wait, wrk

PORT = 18_280
FEATURES = 10
TICKS = os.sysconf("SC_CLK_TCK")
PARTS = ("bystander", "locks", "workers", "replicas", "plan")
SETTLE_S = 3.0
BUSY = 0.6  # of a core, planned
PLAN = ((10, 4, 1), (100, 4, 20), (1000, 4, 100), (1000, 50, 100), (10_000, 4, 1000))


@dataclass
class Served:
    """A service in processes of its own."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """Processor time of its processes so far."""
        return sum(_cpu_s(pid) for pid in _tree(self.process.pid))


def _tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _tree(int(child)))]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def routers(number: int) -> list[str]:
    """The first is the default router."""
    return ["default", *(f"r{i}" for i in range(1, number))]


def door(router: str) -> str:
    return "" if router == "default" else f"/r/{router}"


@contextmanager
def serving(
    folder: Path,
    database: str,
    *,
    port: int,
    routers: Sequence[str],
    serve: str = "turns",
    workers: int = 1,
    m: int = 4,
) -> Iterator[Served]:
    """`bot-orch serve` with ``m`` agents in each of the routers; `auto` with features."""
    agents = [{"id": f"agent-{i}", "kind": "simulated"} for i in range(m)]
    router = {"policy": "auto", "n_features": FEATURES, "floor": 0.02}
    document: dict[str, Any] = {
        "version": 1,
        "database": database,
        "listen": {"port": port},
        "log_level": "error",
        "router": router,
        "agents": agents,
        "routers": {name: {"router": router, "agents": agents} for name in routers[1:]},
    }
    if serve != "turns":
        document["cluster"] = {"serve": serve}
    (config := folder / f"{port}.yaml").write_text(json.dumps(document))
    command = [sys.executable, "-m", "bot_orch", "serve", str(config)]
    command += ["--workers", str(workers)] if workers > 1 else []
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        _wait(port, seconds=120.0)
        yield Served(process, port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def script(router: str) -> str:
    """One decision after the other for a router."""
    task = {"task": {"id": "t", "features": [round(0.1 * i, 1) for i in range(FEATURES)]}}
    return (
        f'wrk.method = "POST"\nwrk.path = "{door(router)}/v1/decisions"\nwrk.body = \'{json.dumps(task)}\'\n'
        'wrk.headers["content-type"] = "application/json"\n'
    )


def drive(targets: Sequence[tuple[Served, str]], seconds: float, connections: int) -> tuple[float, float]:
    """Decisions per second over all (service, router), and the largest p99 in milliseconds; all at once."""
    found: list[tuple[float, float, float]] = []
    share = max(1, connections // len(targets))

    def one(served: Served, router: str) -> None:
        found.append(wrk(served.url, script(router), seconds, share))

    threads = [threading.Thread(target=one, args=each) for each in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(found) < len(targets):
        raise SystemExit("a service did not answer")
    return sum(rate for rate, *_ in found), max(p99 for *_, p99 in found)


@dataclass(frozen=True)
class Cost:
    """What was measured under load."""

    rate: float
    p99_ms: float
    cpu_ms: tuple[float, ...]  # of each service, per decision of all

    def __str__(self) -> str:
        each = " + ".join(f"{ms:.3f}" for ms in self.cpu_ms)
        return f"{self.rate:.0f} decisions/s, p99 {self.p99_ms:.1f} ms, processor {each} ms per decision"


def measure(
    services: Sequence[Served], targets: Sequence[tuple[Served, str]], seconds: float, connections: int
) -> Cost:
    """Load for some seconds, after a second to warm up."""
    drive(targets, 1.0, connections)
    before = [served.cpu_s() for served in services]
    rate, p99 = drive(targets, seconds, connections)
    after = [served.cpu_s() for served in services]
    made = rate * seconds
    return Cost(rate, p99, tuple(1e3 * (b - a) / made for a, b in zip(before, after, strict=True)))


def owners(url: str, names: Sequence[str]) -> dict[str, int]:
    """The port of the process that serves each router, once all are served."""
    import psycopg

    ask = (
        "SELECT s.name, p.address FROM bot_orch.leases l JOIN bot_orch.streams s ON s.id = l.stream "
        "JOIN bot_orch.processes p ON p.id = l.owner WHERE l.until > clock_timestamp()"
    )
    end, found = time.monotonic() + 60, dict[str, int]()
    with psycopg.connect(url, autocommit=True) as connection:
        while time.monotonic() < end and len(found) < len(names):
            rows = connection.execute(ask).fetchall()
            found = {name or "default": int(re.split(r"[:/]", address.rstrip("/"))[-1]) for name, address in rows}
            time.sleep(0.2)
    connection.close()
    if len(found) < len(names):
        raise SystemExit(f"not every router has an owner: {found}")
    return found


@contextmanager
def replicas(folder: Path, url: str, number: int, *, serve: str, names: Sequence[str]) -> Iterator[list[Served]]:
    """Several replicas on a fresh log."""
    fresh(url)
    with ExitStack() as stack:
        yield [
            stack.enter_context(serving(folder, url, port=PORT + i, routers=names, serve=serve)) for i in range(number)
        ]


def independent(url: str, services: Sequence[Served], names: Sequence[str]) -> list[tuple[Served, str]]:
    """One router for each service: one that it owns itself."""
    time.sleep(SETTLE_S)  # routers move when processes join
    held, found = owners(url, names), []
    for served in services:
        own = [name for name in names if held[name] == served.port]
        if not own:
            raise SystemExit(f"{served.url} owns no router: {held}")
        found.append((served, own[0]))
    return found


class Waits(threading.Thread):
    """Looks at the server's sessions all the time: how many wait for a lock, how many run."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url, self._done = url, threading.Event()
        self.looks = self.locks = self.active = 0

    def run(self) -> None:
        import psycopg

        ask = (
            "SELECT count(*) FILTER (WHERE wait_event_type = 'Lock'), count(*) FROM pg_stat_activity "
            "WHERE state <> 'idle' AND pid <> pg_backend_pid() AND application_name LIKE 'bot-orch%'"
        )
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._done.wait(0.01):
                locks, active = connection.execute(ask).fetchone() or (0, 0)
                self.looks, self.locks, self.active = self.looks + 1, self.locks + locks, self.active + active
        connection.close()

    def stop(self) -> tuple[float, float]:
        """Mean number of sessions that waited for a lock, and that did anything."""
        self._done.set()
        self.join()
        return self.locks / max(1, self.looks), self.active / max(1, self.looks)


class Bars:
    """Prints what must hold."""

    def __init__(self) -> None:
        self.short = 0

    def most(self, name: str, value: float, need: float) -> None:
        self._say(name, value, f"at most {need:g}", good=value <= need)

    def least(self, name: str, value: float, need: float) -> None:
        self._say(name, value, f"at least {need:g}", good=value >= need)

    def _say(self, name: str, value: float, need: str, *, good: bool) -> None:
        self.short += not good
        print(f"bar {name} {value:.2f}, {need}: {'ok' if good else 'short'}", flush=True)


@dataclass
class Run:
    """How long and how much."""

    folder: Path
    url: str
    seconds: float
    connections: int
    bars: Bars

    def bystander(self) -> None:
        """One router under load at its owner; the other replica has nothing to do with it."""
        for serve in ("turns", "owner"):
            with replicas(self.folder, self.url, 2, serve=serve, names=routers(2)) as services:
                first = services[0], "default"
                if serve == "owner":
                    first = independent(self.url, services, routers(2))[0]
                cost = measure(services, [first], self.seconds, self.connections)
            other = cost.cpu_ms[1] / cost.cpu_ms[0]
            print(f"{serve}, one router at one of two replicas: {cost}; the bystander {other:.3f} of the other")
            if serve == "owner":
                self.bars.most("bystander", other, 0.1)

    def locks(self) -> None:
        """Owners of independent routers do not wait for each other."""
        found = []
        for number in (1, 2, 3):
            names = routers(number)
            with replicas(self.folder, self.url, number, serve="owner", names=names) as services:
                targets = independent(self.url, services, names)
                waits = Waits(self.url)
                waits.start()
                cost = measure(services, targets, self.seconds, self.connections)
                locks, active = waits.stop()
            found.append(locks)
            print(f"{number} owners: {cost}; sessions that wait for a lock {locks:.4f}, active {active:.2f} (mean)")
        self.bars.most("lock-waits-of-3-owners-over-1", found[-1] - found[0], 0.05)

    def workers(self) -> None:
        """Independent routers on SQLite: one worker, then two, in turns."""
        best: dict[int, Cost] = {}
        names = routers(4)
        for turn in range(2):
            for number in (1, 2):
                (place := self.folder / f"workers-{turn}-{number}").mkdir()
                with serving(place, str(place / "log.sqlite"), port=PORT, routers=names, workers=number) as served:
                    cost = measure([served], [(served, name) for name in names], self.seconds, self.connections)
                if number not in best or cost.rate > best[number].rate:
                    best[number] = cost
                print(f"{number} workers, {len(names)} routers: {cost}")
        self.bars.most("workers-processor", best[2].cpu_ms[0] / best[1].cpu_ms[0], 1.1)
        self.bars.least("workers-wall", best[2].rate / best[1].rate, 1.4)

    def replicas(self) -> None:
        """Decisions a second with 1, 2 and 3 replicas, all on this machine."""
        for number in (1, 2, 3):
            with replicas(self.folder, self.url, number, serve="turns", names=routers(1)) as services:
                cost = measure(services, [(each, "default") for each in services], self.seconds, self.connections)
            print(f"turns, {number} replicas, one router: {cost}")
        for number in (1, 2, 3):
            names = routers(number)
            with replicas(self.folder, self.url, number, serve="owner", names=names) as services:
                targets = independent(self.url, services, names)
                cost = measure(services, targets, self.seconds, self.connections)
            print(f"owner, {number} replicas, {number} routers: {cost}")

    def plan(self) -> None:
        """Cores and disk for some rates, from this machine's processor time per decision and bytes per pair."""
        costs = {}
        for m in sorted({m for _, m, _ in PLAN}):
            (place := self.folder / f"plan-{m}").mkdir()
            log = place / "log.sqlite"
            with serving(place, str(log), port=PORT, routers=routers(1), m=m) as served:
                cost = measure([served], [(served, "default")], self.seconds, self.connections)
                pairs, size = self._pairs(served, log)
                costs[m] = cost.cpu_ms[0], size / pairs
            print(f"{m} agents: {cost}; {size / pairs:.0f} bytes per decision with its outcome")
        print(
            "decisions/s, agents, routers, cores of the service, machines of 2 cores (and 1 spare), GB of log per day"
        )
        for rate, m, number in PLAN:
            cpu_ms, size_b = costs[m]
            cores = rate * cpu_ms / 1e3 / BUSY
            machines = -(-cores // 2) + 1
            print(f"{rate}, {m}, {number}, {cores:.2f}, {machines:.0f}, {rate * 86_400 * size_b / 1e9:.1f}")

    def _pairs(self, served: Served, log: Path) -> tuple[int, int]:
        """How many decisions with outcomes were written, and by how much the log has grown."""
        from bot_orch.integrations.client import Client

        number, features = 2000, [0.1] * FEATURES
        before = sum(path.stat().st_size for path in log.parent.glob(f"{log.name}*"))
        with Client(served.url) as client:
            for _ in range(number):
                made = client.decide({"features": features})
                client.observe(made.id, reward=0.5)
        after = sum(path.stat().st_size for path in log.parent.glob(f"{log.name}*"))
        return number, after - before


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python benchmarks/cluster.py workers --seconds 3",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load, each")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--url", help="a PostgreSQL to use; its schema bot_orch is dropped")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}")
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is needed: apt-get install wrk")
    bars = Bars()
    with postgres(arguments.url) as url, tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), url, arguments.seconds, arguments.connections, bars)
        for part in arguments.parts or PARTS:
            print(f"== {part}", flush=True)
            getattr(run, part)()
    print(f"cores {os.cpu_count()}, connections {arguments.connections}, bars short {bars.short}")


if __name__ == "__main__":
    main()
