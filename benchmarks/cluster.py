"""What more processes cost and bring: owners and bystanders, waits for locks, workers on one machine, replicas.

    python benchmarks/cluster.py              # everything
    python benchmarks/cluster.py workers      # one part: chats, bystander, locks, workers, replicas or plan
    python benchmarks/cluster.py plan --rate 300 --agents 8 --routers 40

Processor time is that of the service's processes, from /proc, over the decisions they made; wrk and PostgreSQL run on
the same cores, so their times are printed beside it. "others" is what everything else on the machine used meanwhile, in
cores: the bar on wall time is not judged where that is much. `plan` measures a decision with its report at its owner,
the same passed on by another process, the share of PostgreSQL and the bytes of the log, and prints what a rate needs,
and what up to 16 machines could take if nothing else limits them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from _chats import chat_cost, owner_killed, workers
from _planning import BUSY, CORES, MACHINES, Prices, capacity, needed
from _serving import (
    FEATURES,
    PORT,
    Served,
    Target,
    drive,
    ended_cpu_s,
    machine_cpu_s,
    pair_script,
    routers,
    script,
    server_pid,
    serving,
    tree_cpu_s,
)
from log_size import in_postgres, traffic

from postgres import fresh, postgres

PARTS = ("chats", "bystander", "locks", "workers", "replicas", "plan")
SETTLE_S = 3.0  # without a move
PAIRS = 5000
QUIET = 0.15  # cores that others may use while wall time is judged
SERVER_CORES = 16  # of the extrapolation
PLAN = ((10, 4, 1), (100, 4, 20), (1000, 4, 100), (1000, 50, 100), (10_000, 4, 1000))  # decisions/s, agents, routers


@dataclass(frozen=True)
class Cost:
    """What was measured under load."""

    rate: float
    p99_ms: float
    cpu_ms: tuple[float, ...]  # of each service, per decision of all
    server_ms: float  # of PostgreSQL; 0 on SQLite
    load_ms: float  # of wrk
    others: float  # cores that everything else used

    def __str__(self) -> str:
        each = " + ".join(f"{ms:.3f}" for ms in self.cpu_ms)
        server = f", of PostgreSQL {self.server_ms:.3f} ms" if self.server_ms else ""
        return (
            f"{self.rate:.0f} decisions/s, p99 {self.p99_ms:.1f} ms, processor {each} ms per decision{server}, "
            f"of wrk {self.load_ms:.3f} ms, others {self.others:.2f} cores"
        )


def owners(url: str, names: Sequence[str], processes: int) -> dict[str, int]:
    """The port of the process that serves each router, once all are served, each process has one, and none moves."""
    import psycopg

    ask = (
        "SELECT s.name, p.address FROM bot_orch.leases l JOIN bot_orch.streams s ON s.id = l.stream "
        "JOIN bot_orch.owners p ON p.id = l.owner WHERE l.until > clock_timestamp()"
    )
    start, since, found = time.monotonic(), time.monotonic(), dict[str, int]()
    with psycopg.connect(url, autocommit=True) as connection:
        while time.monotonic() - start < 90:
            rows = connection.execute(ask).fetchall()
            now = {name or "default": int(address.split()[0].rpartition(":")[2]) for name, address in rows}
            if now != found or set(now) != set(names) or len(set(now.values())) != processes:
                since, found = time.monotonic(), now
            if time.monotonic() - since > SETTLE_S:
                break
            time.sleep(0.2)
    connection.close()
    if set(found) != set(names) or len(set(found.values())) != processes:
        raise SystemExit(f"routers without an owner, or processes without a router: {found}")
    return found


@contextmanager
def replicas(folder: Path, url: str, number: int, *, names: Sequence[str], m: int = 4) -> Iterator[list[Served]]:
    """Several replicas on a fresh log."""
    fresh(url)
    with ExitStack() as stack:
        yield [stack.enter_context(serving(folder, url, port=PORT + i, routers=names, m=m)) for i in range(number)]


def independent(url: str, services: Sequence[Served], names: Sequence[str]) -> list[Target]:
    """One router for each service: one that it owns itself."""
    held = owners(url, names, len(services))
    return [(served, next(name for name in names if held[name] == served.port)) for served in services]


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

    def least(self, name: str, value: float, need: float, *, others: float = 0.0) -> None:
        if value < need and others > QUIET:
            print(f"bar {name} {value:.2f}, at least {need:g}: not judged, others used {others:.2f} cores", flush=True)
            return
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
    wanted: Sequence[tuple[float, int, int]] = PLAN

    def measure(
        self,
        services: Sequence[Served],
        targets: Sequence[Target],
        server: int = 0,
        write: Callable[[str], str] = script,
    ) -> Cost:
        """Load for some seconds, after a second to warm up."""
        drive(targets, 1.0, self.connections, write)
        begun = time.monotonic()
        before = [*(served.cpu_s() for served in services), tree_cpu_s(server), ended_cpu_s(), machine_cpu_s()]
        rate, p99 = drive(targets, self.seconds, self.connections, write)
        after = [*(served.cpu_s() for served in services), tree_cpu_s(server), ended_cpu_s(), machine_cpu_s()]
        *each, of_server, of_load, of_all = (b - a for a, b in zip(before, after, strict=True))
        others = max(0.0, of_all - sum(each) - of_server - of_load) / (time.monotonic() - begun)
        ms = 1e3 / (rate * self.seconds)
        return Cost(rate, p99, tuple(ms * s for s in each), ms * of_server, ms * of_load, others)

    def chats(self) -> None:
        """A chat at its owner, and one that a front carries: what the owner spends on each."""
        (place := self.folder / "chats").mkdir()
        with workers(place) as found:
            for pieces, number in ((0, 1500), (32, 400), (200, 150)):
                cost = {at: chat_cost(found, at, number, pieces=pieces) for at in (0, 1)}
                kind = f"{pieces}-pieces" if pieces else "whole"
                for at, where in enumerate(("owner", "front")):
                    print(f"chats, {kind}, at the {where}: {cost[at]}", flush=True)
                self.bars.most(f"owner-of-carried-{kind}", cost[1].owner_ms / cost[0].owner_ms, 0.34)
            pause_s, errors, unhealed = owner_killed(found)
            print(f"owner killed under load at the front: {errors} errors, longest pause of a caller {pause_s:.2f} s")
            self.bars.most("errors-that-one-retry-does-not-heal", unhealed, 0)
            self.bars.most("pause-after-a-kill-s", pause_s, 6.0)

    def bystander(self) -> None:
        """One router under load at its owner; the other replica has nothing to do with it."""
        server = server_pid(self.url)
        with replicas(self.folder, self.url, 2, names=routers(2)) as services:
            cost = self.measure(services, [independent(self.url, services, routers(2))[0]], server)
        other = cost.cpu_ms[1] / cost.cpu_ms[0]
        print(f"one router at one of two processes: {cost}; the bystander {other:.3f} of the other")
        self.bars.most("bystander", other, 0.1)

    def locks(self) -> None:
        """Owners of independent routers do not wait for each other."""
        found = []
        for number in (1, 2, 3):
            names = routers(number)
            with replicas(self.folder, self.url, number, names=names) as services:
                targets = independent(self.url, services, names)
                waits = Waits(self.url)
                waits.start()
                cost = self.measure(services, targets, server_pid(self.url))
                locks, active = waits.stop()
            found.append(locks)
            print(f"{number} owners: {cost}; sessions that wait for a lock {locks:.4f}, active {active:.2f} (mean)")
        self.bars.most("lock-waits-of-3-owners-over-1", found[-1] - found[0], 0.05)

    def workers(self) -> None:
        """Independent routers on PostgreSQL: one worker, then two, in turns; the best of each counts."""
        names = routers(4)
        found: dict[int, list[Cost]] = {1: [], 2: []}
        for turn, number in itertools.product(range(2), found):
            found[number].append(cost := self._workers(number, names, turn))
            print(f"{number} workers, {len(names)} routers: {cost}", flush=True)
        (one_ms, one), (two_ms, two) = (
            (min(each.cpu_ms[0] for each in costs), max(each.rate for each in costs)) for costs in found.values()
        )
        others = max(each.others for costs in found.values() for each in costs)
        self.bars.most("workers-processor", two_ms / one_ms, 1.1)
        self.bars.least("workers-wall", two / one, 1.4, others=others)

    def _workers(self, number: int, names: Sequence[str], turn: int) -> Cost:
        (place := self.folder / f"{turn}-{number}").mkdir()
        with serving(place, fresh(self.url), port=PORT, routers=names, workers=number) as served:
            owners(self.url, names, number)
            return self.measure([served], [(served, name) for name in names], server_pid(self.url))

    def replicas(self) -> None:
        """Decisions a second with 1, 2 and 3 replicas, all on this machine."""
        for number in (1, 2, 3):
            with replicas(self.folder, self.url, number, names=routers(1)) as services:
                cost = self.measure(services, [(each, "default") for each in services], server_pid(self.url))
            print(f"{number} processes, one router, asked at all of them: {cost}")
        for number in (1, 2, 3):
            names = routers(number)
            with replicas(self.folder, self.url, number, names=names) as services:
                targets = independent(self.url, services, names)
                cost = self.measure(services, targets, server_pid(self.url))
            print(f"{number} processes, {number} routers, each asked at its owner: {cost}")

    def plan(self) -> None:
        """What some rates need, and what more machines could take."""
        prices = {m: self._prices(m) for m in dict.fromkeys(m for _, m, _ in self.wanted)}
        print(
            "plan: decisions/s, agents, routers, processes, machines, cores of PostgreSQL, commits/s, GB of log a day"
        )
        for rate, m, number in self.wanted:
            need = needed(rate, number, prices[m])
            print(
                f"plan: {rate:g}, {m}, {number}: {need.processes}, {need.machines}, {need.server_cores:.2f}, "
                f"{need.commits:.0f}, {need.gb_per_day:.2f}{'' if need.fits else ', too few routers'}"
            )
        m, price = next(iter(prices.items()))
        print(f"machines of {CORES} cores ({m} agents), decisions/s, cores of PostgreSQL, log in MB/s")
        for n in MACHINES:
            most = capacity(n, price)
            print(
                f"machines: {n}, {most:.0f}, {1e-3 * most * price.server_ms / BUSY:.1f}, {most * price.bytes / 1e6:.2f}"
            )
        print(f"{SERVER_CORES} cores of PostgreSQL take {SERVER_CORES * BUSY * 1e3 / price.server_ms:.0f} decisions/s")

    def _prices(self, m: int) -> Prices:
        """Measured with two processes, one of which owns the router."""
        names, server = routers(2), server_pid(self.url)
        with replicas(self.folder, self.url, 2, names=names, m=m) as services:
            owner = independent(self.url, services, names)[0]
            cost = self.measure(services, [owner], server, write=pair_script)
            passed = self.measure(services, [(services[1], owner[1])], server, write=pair_script)
            alone, _ = drive([owner], self.seconds, 1, pair_script)
        rows = list(traffic(m, PAIRS))
        found = Prices(
            owner_ms=2 * cost.cpu_ms[0],
            passed_ms=2 * (passed.cpu_ms[1] + max(0.0, passed.cpu_ms[0] - cost.cpu_ms[0])),
            server_ms=2 * cost.server_ms,
            alone_ms=2e3 / alone,
            bytes=in_postgres(rows, self.url) / PAIRS + 4 * FEATURES,
        )
        print(
            f"prices: {m} agents, {FEATURES} features: at its owner {found.owner_ms:.3f} ms, passed on "
            f"{found.passed_ms:.3f} ms more, PostgreSQL {found.server_ms:.3f} ms; alone {found.alone_ms:.1f} ms; "
            f"{found.bytes:.0f} bytes; one router takes {found.router_most:.0f} decisions/s",
            flush=True,
        )
        return found


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
    parser.add_argument("--rate", type=float, help="plan: decisions per second, each with its outcome")
    parser.add_argument("--agents", type=int, default=4, help="plan: of a router (default: 4)")
    parser.add_argument("--routers", type=int, default=1, help="plan: over which the rate is spread (default: 1)")
    arguments = parser.parse_args()
    if arguments.rate is not None and (arguments.rate <= 0 or arguments.agents < 1 or arguments.routers < 1):
        parser.error("--rate, --agents and --routers must be positive")
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}")
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is needed: apt-get install wrk")
    bars = Bars()
    with postgres(arguments.url) as url, tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), url, arguments.seconds, arguments.connections, bars)
        if arguments.rate is not None:
            run.wanted = [(arguments.rate, arguments.agents, arguments.routers)]
        for part in arguments.parts or PARTS:
            print(f"== {part}", flush=True)
            getattr(run, part)()
    print(f"cores {os.cpu_count()}, connections {arguments.connections}, bars short {bars.short}")


if __name__ == "__main__":
    main()
