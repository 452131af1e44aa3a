"""Services in processes of their own, load on them, and the processor time they take."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service import _wait, wrk

__all__ = [
    "FEATURES",
    "PORT",
    "Served",
    "Target",
    "door",
    "drive",
    "ended_cpu_s",
    "machine_cpu_s",
    "pair_script",
    "routers",
    "script",
    "server_pid",
    "serving",
    "tree_cpu_s",
    "tree_rss_mb",
]

PORT = 18_280 + 10 * (os.getpid() % 100)  # another run on this machine has others
FEATURES = 10
TICKS = os.sysconf("SC_CLK_TCK")


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


Target = tuple[Served, str]  # a service, and a router to ask it for


def _tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _tree(int(child)))]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def tree_cpu_s(pid: int) -> float:
    """Of a server: that of processes that have ended, too, as the first of them has waited for them."""
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(_cpu_s(each) for each in _tree(pid)) + (int(fields[13]) + int(fields[14])) / TICKS


def tree_rss_mb(pid: int) -> float:
    """Resident memory of a server's processes."""
    pages = sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in _tree(pid)) if pid else 0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def ended_cpu_s() -> float:
    """Processor time of the processes that this one has started and that have ended, such as wrk."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def machine_cpu_s() -> float:
    """Processor time of everything on this machine."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / TICKS


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
    (config := folder / f"{port}.yaml").write_text(json.dumps(document))
    command = [sys.executable, "-m", "bot_orch", "serve", str(config)]
    command += ["--workers", str(workers)] if workers > 1 else []
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        _wait(port, seconds=120.0)
        if process.poll() is not None:
            raise SystemExit(f"the service has ended; is port {port} in use?")
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


def pair_script(router: str) -> str:
    """Decisions for a router, and a report on each."""
    task = {"task": {"id": "t", "features": [round(0.1 * i, 1) for i in range(FEATURES)]}}
    return f"""
local ids, kind = {{}}, {{["content-type"] = "application/json"}}
function request()
  local id = table.remove(ids)
  if id == nil then return wrk.format("POST", "{door(router)}/v1/decisions", kind, '{json.dumps(task)}') end
  return wrk.format("POST", "{door(router)}/v1/feedback", kind, '{{"decision_id": "' .. id .. '", "reward": 0.5}}')
end
function response(status, headers, body)
  if body:find('"propensity"', 1, true) then ids[#ids + 1] = body:match('"id":"([^"]+)"') end
end
"""


def drive(
    targets: Sequence[Target], seconds: float, connections: int, write: Callable[[str], str] = script
) -> tuple[float, float]:
    """Requests per second over all (service, router), and the largest p99 in milliseconds; all at once."""
    found: list[tuple[float, float, float]] = []
    share = max(1, connections // len(targets))

    def one(served: Served, router: str) -> None:
        found.append(wrk(served.url, write(router), seconds, share))

    threads = [threading.Thread(target=one, args=each) for each in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(found) < len(targets):
        raise SystemExit("a service did not answer")
    return sum(rate for rate, *_ in found), max(p99 for *_, p99 in found)


def server_pid(url: str) -> int:
    """The process of a PostgreSQL on this machine; 0 if it is on another one."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        folder = Path(str((connection.execute("SHOW data_directory").fetchone() or [""])[0]))
    connection.close()
    pid = folder / "postmaster.pid"
    return int(pid.read_text().split()[0]) if pid.is_file() else 0
