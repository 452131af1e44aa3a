"""Durable decisions and feedback per second, beside the same server in memory and beside one commit per request.

wrk sends the load. Every mode runs the same code on the same machine in the same run; only the log and the grouping
differ. Latencies are wrk's. ``gateway.py`` measures what the OpenAI-compatible gateway adds to a call.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from _harness import Bench
from contextual import contextual

MODES = {"durable": ("file", True), "in memory": ("memory", True), "one commit per request": ("file", False)}
SERVER = """
import sys
from bot_orch.service.config import parse_config
from bot_orch.service.server import make_server
config = parse_config(open(sys.argv[1]).read())
import gc
gc.collect(); gc.freeze(); gc.set_threshold(50_000, 20, 100)
make_server(config, grouped=sys.argv[2] == "grouped").run()
"""
DECIDE = """
wrk.method = "POST"
wrk.body = '{"task": {"id": "t", "kind": "benchmark"}}'
wrk.headers["content-type"] = "application/json"
"""
FEEDBACK = """
local ids = {}
local offset = 0
function init(args)
  for line in io.lines(args[1]) do ids[#ids + 1] = line end
  offset = tonumber(args[2]) or 0
end
local i = 0
function request()
  i = i + 1
  local body = '{"decision_id": "' .. ids[(i - 1) % #ids + 1] .. '", "reward": 0.5}'
  return wrk.format("POST", nil, {["content-type"] = "application/json"}, body)
end
"""


@contextmanager
def serving(folder: Path, mode: str, port: int) -> Iterator[str]:
    """A server of our own process, ended at the end."""
    where, grouped = MODES[mode]
    database = folder / f"{mode.replace(' ', '-')}.sqlite" if where == "file" else ":memory:"
    with _served(folder, "policy: bot, floor: 0.02", port, database=str(database), grouped=grouped) as url:
        yield url


def serving_router(folder: Path, router: str, port: int) -> AbstractContextManager[str]:
    """A durable server with these settings of the router."""
    return _served(folder, router, port, database=str(folder / "log.sqlite"), grouped=True)


@contextmanager
def _served(folder: Path, router: str, port: int, *, database: str, grouped: bool) -> Iterator[str]:
    agents = "".join(f"  - {{id: agent-{i}, kind: simulated}}\n" for i in range(4))
    config = folder / "config.yaml"
    config.write_text(
        f"version: 1\ndatabase: {json.dumps(database)}\nlisten: {{port: {port}}}\nlog_level: warning\n"
        f"router: {{{router}}}\nagents:\n{agents}"
    )
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", SERVER, str(config), "grouped" if grouped else "single"], stdout=subprocess.DEVNULL
    )
    try:
        yield _wait(port, seconds=120.0)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _wait(port: int, path: str = "/health/ready", seconds: float = 20.0) -> str:
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(f"{url}{path}", timeout=1).read()  # noqa: S310
        except OSError:
            time.sleep(0.05)
        else:
            return url
    raise SystemExit("a server did not start")


# wrk prints a fixed set of percentiles; this adds the one that snapshots show in
DONE = """
function done(summary, latency, requests)
  io.write(string.format("p99.9 %f ms\\n", latency:percentile(99.9) / 1000))
end
"""


def wrk_percentiles(url: str, script: str, seconds: float, connections: int) -> tuple[float, float, float]:
    """Requests per second, and p99 and p99.9 in milliseconds; stops if an answer was not 2xx."""
    return _wrk(url, script + DONE, seconds, connections, percentiles=("99%", "p99.9"))


def wrk(url: str, script: str, seconds: float, connections: int, *arguments: str) -> tuple[float, float, float]:
    """Requests per second, and p50 and p99 in milliseconds; stops if an answer was not 2xx."""
    return _wrk(url, script, seconds, connections, *arguments)


def _wrk(
    url: str,
    script: str,
    seconds: float,
    connections: int,
    *arguments: str,
    percentiles: tuple[str, str] = ("50%", "99%"),
) -> tuple[float, float, float]:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s", file.name, url]
        run = subprocess.run([*command, "--", *arguments], capture_output=True, text=True, check=True)  # noqa: S603
    text = run.stdout
    if "Non-2xx" in text:
        raise SystemExit(f"answers were not 2xx:\n{text}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    first, second = (re.search(rf"{p}\s+([\d.]+)\s?(us|ms|s)", text) for p in percentiles)
    if rate is None or first is None or second is None:
        raise SystemExit(f"cannot read wrk's output:\n{text}{run.stderr}")
    scale = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    return float(rate[1]), float(first[1]) * scale[first[2]], float(second[1]) * scale[second[2]]


def measure(folder: Path, rounds: int, seconds: float, connections: int) -> dict[tuple[str, str], list[float]]:
    """Median rate, p50 and p99 per mode and path; modes take turns, so that a noisy moment hits all alike."""
    samples: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for turn in range(rounds):
        for mode in MODES:
            (place := folder / f"{turn}-{mode.replace(' ', '-')}").mkdir()
            with serving(place, mode, 18_200) as url:
                wrk(f"{url}/v1/decisions", DECIDE, 1, connections)
                decided = wrk(f"{url}/v1/decisions", DECIDE, seconds, connections)
                samples.setdefault((mode, "decisions"), []).append(decided)
                samples.setdefault((mode, "feedback"), []).append(_feedback(url, place, seconds, connections))
    return {key: [statistics.median(column) for column in zip(*rows, strict=True)] for key, rows in samples.items()}


def _feedback(url: str, place: Path, seconds: float, connections: int) -> tuple[float, float, float]:
    """Every report is new: each names a decision of its own, made beforehand."""
    ids = place / "ids"
    script = (
        DECIDE
        + 'function response(s, h, b) local id = b:match(\'"id":"([^"]+)"\'); if id then OUT:write(id, "\\n") end end\n'
    )
    script += f'function setup(t) end\nfunction init(a) OUT = io.open("{ids}", "w"); OUT:setvbuf("full") end\n'
    wrk(f"{url}/v1/decisions", script, seconds * 2.5, connections)
    return wrk(f"{url}/v1/feedback", FEEDBACK, seconds, connections, str(ids))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/service.py --quick")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument(
        "--database", choices=("sqlite", "postgresql"), default="sqlite", help="or both beside each other"
    )
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is needed: apt-get install wrk")
    if arguments.database == "postgresql":
        from postgres import compare

        compare(None, quick=arguments.quick, connections=arguments.connections)
        return
    rounds, seconds = (1, 2.0) if arguments.quick else (3, 4.0)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), rounds, seconds, arguments.connections)
    bench = Bench("/s")
    for path in ("decisions", "feedback"):
        ours = found["durable", path][0]
        need = 0.85 if path == "decisions" else None
        bench.row(f"durable {path} over in memory", ours, found["in memory", path][0], higher_is_better=True, need=need)
        need = 3.0 if path == "decisions" else None
        peer = found["one commit per request", path][0]
        bench.row(f"durable {path} over one commit per request", ours, peer, higher_is_better=True, need=need)
    for (mode, path), (rate, p50, p99) in found.items():
        print(f"{mode} {path}: {rate:.0f} /s, p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    with tempfile.TemporaryDirectory() as folder:
        contextual(bench, Path(folder), rounds=rounds, seconds=seconds, connections=arguments.connections)
    print(f"cores {os.cpu_count()}, connections {arguments.connections}")
    bench.finish()


if __name__ == "__main__":
    main()
