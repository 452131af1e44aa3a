"""The demonstration: a service with pretended agents, traffic to it, and a line per second on who gets the work."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bot_orch.config import Config, parse_config
from bot_orch.service.server import make_server

__all__ = ["Demo", "demo_config", "run_demo"]

_AGENTS = """
  - {id: steady,   kind: simulated, settings: {seed: 1, quality: 0.72, median_s: 0.05}}
  - {id: fading,   kind: simulated, settings: {seed: 2, quality: 0.85, median_s: 0.05, drift_after: 250,
      drift_over: 50, drift_quality: 0.25, profile: {good: 9, odd: 1}, drift_profile: {good: 3, odd: 7}}}
  - {id: flatterer, kind: simulated, settings: {seed: 3, quality: 0.4, flattery: 0.35, median_s: 0.03,
      profile: {good: 2, odd: 8}}}
  - {id: crashing, kind: simulated, settings: {seed: 4, quality: 0.8, crash: 0.3, median_s: 0.05}}
"""


@dataclass(frozen=True, slots=True)
class Demo:
    """How long, how much, where."""

    seconds: float = 0.0
    rate: float = 20.0
    port: int = 8080
    database: str = ":memory:"


def demo_config(demo: Demo) -> Config:
    """The settings of the demonstration."""
    return parse_config(
        f"version: 1\ndatabase: {json.dumps(demo.database)}\nlisten: {{port: {demo.port}}}\nlog_level: warning\n"
        f"router: {{policy: auto, floor: 0.03, seed: 7, lambda: 0.5}}\nagents: {_AGENTS}"
    )


def run_demo(demo: Demo, say: Callable[[str], None]) -> int:
    """Serve, send traffic and report until told to stop."""
    try:
        asyncio.run(_run(demo, say))
    except KeyboardInterrupt:
        say("stopped")
    return 0


async def _run(demo: Demo, say: Callable[[str], None]) -> None:
    server = make_server(demo_config(demo))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.02)
        if serving.done():
            await serving
            raise OSError(f"port {demo.port} cannot be used; choose another with --port")
    say(f"serving on http://127.0.0.1:{demo.port}; stop with Ctrl-C")
    try:
        await _traffic(demo, say, server.config.app.state.runtime)
    finally:
        server.should_exit = True
        await serving


async def _traffic(demo: Demo, say: Callable[[str], None], runtime: Any) -> None:
    import aiohttp

    counts: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    begun = said = loop.time()
    under_way: set[asyncio.Task[None]] = set()
    number = 0
    async with aiohttp.ClientSession(f"http://127.0.0.1:{demo.port}") as session:
        while not demo.seconds or loop.time() - begun < demo.seconds:
            task = asyncio.create_task(_one(session, number, counts))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            number += 1
            await asyncio.sleep(max(0.0, begun + number / demo.rate - loop.time()))
            if loop.time() - said >= 1.0:
                said = loop.time()
                _report(said - begun, number, counts, runtime, say)
        await asyncio.gather(*under_way, return_exceptions=True)
    _report(loop.time() - begun, number, counts, runtime, say)


async def _one(session: Any, number: int, counts: Counter[str]) -> None:
    body = {"task": {"id": f"demo-{number}", "kind": "demo", "text": f"task number {number}"}}
    async with session.post("/v1/tasks", json=body) as response:
        counts[response.headers.get("x-bot-orch-agent", "nobody")] += 1
        await response.read()


def _report(elapsed_s: float, number: int, counts: Counter[str], runtime: Any, say: Callable[[str], None]) -> None:
    total = sum(counts.values()) or 1
    shares = "  ".join(f"{name} {100 * count / total:3.0f} %" for name, count in sorted(counts.items()))
    say(f"{elapsed_s:5.0f} s  {number:6d} tasks  last second: {shares}  waiting: {len(runtime.ledger.pending)}")
    counts.clear()
