"""Restart and snapshots of the service: how long a start takes, and whether a snapshot stalls answers.

``start``: the service is started on a log with a snapshot and many events after it, until ``/health/ready`` is 200.
``snapshot``: wrk sends decisions while many are pending, and snapshots are taken all the time; p99.9 is wrk's.
``connections``: idle connections and slow ones are held; memory must stay flat, and others are answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import fold as folding
from _harness import Bench

from bot_orch.log.ledger import fold
from bot_orch.log.stores.sqlite.log import SqliteLog
from service import DECIDE, SERVER, _wait, wrk_percentiles

PORT = 18_210


@contextmanager
def serving(folder: Path, limits: str = "", features: int = 0) -> Iterator[tuple[str, int]]:
    """A server of our own process on ``folder/log``, once it is ready; its address and process id."""
    agents = "".join(f"  - {{id: agent-{i}, kind: simulated}}\n" for i in range(4))
    config = folder / "config.yaml"
    config.write_text(
        f"version: 1\ndatabase: {json.dumps(str(folder / 'log'))}\nlisten: {{port: {PORT}}}\nlog_level: error\n"
        f"limits: {{{limits}}}\n"
        f"router: {{policy: {'auto' if features else 'bot'}, n_features: {features}}}\nagents:\n{agents}"
    )
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(config), "grouped"], stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        yield _wait(PORT, seconds=120.0), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def start(bench: Bench, folder: Path, events: int) -> None:
    """Seconds until a service on a log with a snapshot and ``events`` more answers, beside ten."""
    log, memory = SqliteLog(folder / "log"), folding.written("auto", events + 1000)
    rows = list(memory.read())
    log.append(rows)
    log.commit()
    log.save(fold(memory, upto=1000).snapshot())
    log.close()
    with serving(folder, features=folding.FEATURES):
        pass  # compiles, and writes a snapshot; the next start is measured on a fresh copy
    for name in ("log", "log-wal", "log-shm", "log.snapshot"):
        (folder / name).unlink(missing_ok=True)
    log = SqliteLog(folder / "log")
    log.append(rows)
    log.commit()
    log.save(fold(memory, upto=1000).snapshot())
    log.close()
    begun = time.perf_counter()
    with serving(folder, features=folding.FEATURES):
        took = time.perf_counter() - begun
    name = f"start from a snapshot and {events} events (auto, {folding.FEATURES} features)"
    bench.row(name, took, 10.0, higher_is_better=False, need=1.0)


def snapshots(bench: Bench, folder: Path, pending: int, seconds: float) -> None:
    """wrk's p99.9 while snapshots of many pending decisions are taken, beside 50 ms and beside a run without them."""
    found = {}
    for name, every in (("without snapshots", 10**9), ("through snapshots", 4000)):
        (place := folder / name.split()[0]).mkdir()
        with serving(place, f"snapshot_every: {every}") as (url, _):
            made = 0
            while made < pending:
                made += round(2 * wrk_percentiles(f"{url}/v1/decisions", DECIDE, 2, 64)[0])
            rate, p99, found[name] = wrk_percentiles(f"{url}/v1/decisions", DECIDE, seconds, 64)
        print(
            f"{name}, {made} pending or more: {rate:.0f} /s, p99 {p99:.1f} ms, p99.9 {found[name]:.1f} ms", flush=True
        )
    bench.unit, ours = "ms", found["through snapshots"]
    bench.row("p99.9 through snapshots", ours, 50.0, higher_is_better=False, need=1.0)
    bench.row("p99.9 through snapshots, and without", ours, found["without snapshots"], higher_is_better=False)


def connections(bench: Bench, folder: Path, idle: int, slow: int, seconds: float) -> None:
    """Memory after holding idle and slow connections for a while, over the memory right after they were opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    idle, slow = min(idle, hard - 2000), min(slow, hard // 4)
    limits = f"connections: {idle + slow + 1000}, idle_s: 600, client_timeout_s: 600"
    with serving(folder, limits) as (url, pid):
        before, after, answered = asyncio.run(_hold(url, pid, idle, slow, seconds))
    print(f"{idle} idle and {slow} slow connections: {before / 1024:.0f} MB, after {seconds:g} s {after / 1024:.0f} MB")
    bench.unit = "kB"
    bench.row("memory with held connections, at first over at last", after, before, higher_is_better=False, need=0.9)
    bench.unit = ""
    bench.row("decisions answered meanwhile, over those asked for", answered, seconds, higher_is_better=True, need=0.9)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _hold(url: str, pid: int, idle: int, slow: int, seconds: float) -> tuple[float, float, float]:
    for _ in range(200):
        await asyncio.to_thread(_decided, url)  # what a first request loads or compiles
    host, port = "127.0.0.1", int(url.rsplit(":", 1)[1])
    request = b"POST /v1/decisions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4000\r\n\r\n"
    held = [await asyncio.open_connection(host, port) for _ in range(idle)]
    writers = []
    for _ in range(slow):
        _, writer = await asyncio.open_connection(host, port)
        writer.write(request)
        writers.append(writer)
    await asyncio.sleep(1.0)
    before, answered = _memory_kb(pid), 0
    for _ in range(round(seconds)):
        for writer in writers:
            writer.write(b" ")
        answered += await asyncio.to_thread(_decided, url)
        await asyncio.sleep(1.0)
    after = _memory_kb(pid)
    for writer in (*writers, *(each for _, each in held)):
        writer.close()
    return before, after, float(answered)


def _decided(url: str) -> bool:
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/decisions", b"{}"), timeout=10) as answer:  # noqa: S310
        return bool(answer.status == 200)


def _memory_kb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/restart.py --quick")
    parser.add_argument("--quick", action="store_true", help="few events, decisions and connections")
    parser.add_argument("--only", choices=("start", "snapshot", "connections"), help="one of the measurements")
    chosen = parser.parse_args()
    small, bench = chosen.quick, Bench("s")
    jobs: dict[str, Callable[[Path], None]] = {
        "start": lambda folder: start(bench, folder, 4000 if small else 100_000),
        "snapshot": lambda folder: snapshots(bench, folder, 2000 if small else 20_000, 4.0 if small else 20.0),
        "connections": lambda folder: connections(
            bench, folder, 200 if small else 10_000, 50 if small else 1000, 3.0 if small else 20.0
        ),
    }
    for name, job in jobs.items():
        if chosen.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                job(Path(folder))
    bench.finish()


if __name__ == "__main__":
    main()
