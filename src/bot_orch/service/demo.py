"""The demonstration: a service with simulated agents and a queue of people, and traffic to watch on the dashboard.

One agent drifts and gets worse, one games its judge and is recognised by its outputs, one crashes now and then. Some
tasks are for a person.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from bot_orch.agents.base import CallFailure, CallReply, CallRequest
from bot_orch.service.config import Config, parse_config
from bot_orch.service.runtime import Runtime
from bot_orch.service.server import make_server, one_reason

__all__ = ["Demo", "demo_config", "run_demo"]

_AGENTS = """
  - {id: steady, kind: simulated, price: {per_call_usd: 0.002},
     settings: {seed: 1, quality: 0.72, median_s: 0.15, profile: {good: 95, odd: 5}}}
  - {id: fading, kind: simulated, price: {per_call_usd: 0.004},
     settings: {seed: 2, quality: 0.9, median_s: 0.08, profile: {good: 95, odd: 5},
       drift_after: 260, drift_over: 200, drift_quality: 0.2, drift_profile: {good: 35, odd: 65}}}
  - {id: flatterer, kind: simulated, price: {per_call_usd: 0.001},
     settings: {seed: 3, quality: 0.45, flattery: 0.45, median_s: 0.04, profile: {good: 20, odd: 80}}}
  - {id: crashing, kind: simulated, price: {per_call_usd: 0.003},
     settings: {seed: 4, quality: 0.75, crash: 0.45, median_s: 0.1}, breaker: {failures: 4, open_s: 6}}
  - {id: person, kind: human, settings: {answer_within_s: 180}, price: {per_call_usd: 0.5}}
"""
_ROUTER = "{policy: auto, floor: 0.02, seed: 7, lambda: 1.0, rules: [{kind: routine, deny: [person]}]}"
_LABELS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "good": {"kind": "labels", "probabilities": [1.0, 0.0]},
        "odd": {"kind": "labels", "probabilities": [0.0, 1.0]},
    }
)

_REVIEWS = (
    "A customer wants a refund 40 days after the purchase; the policy says 30. She was in hospital. Refund or not?",
    "This invoice lists the same item twice with different serial numbers. Is it a duplicate?",
    "Translate for a patient leaflet: 'Take with food; do not stop suddenly without asking your doctor.' (German)",
    "The sensor on line 3 reports 94 °C, the one beside it 61 °C. Stop the line?",
    "A reader reports this comment as an insult: 'Only a fool would trust that forecast.' Remove it?",
    "Two candidates have the same score. The form asks for one name and a reason.",
    "The contract says 'within two weeks of delivery'; delivery was in two parts. When does the period end?",
)

_ROUTINE = ("sort this message", "extract the date", "classify this ticket", "summarise this note")
_MOST_REVIEWS = 5
_REVIEW_EVERY_S = 4.0


@dataclass(frozen=True, slots=True)
class Demo:
    """Duration (0: until stopped), tasks per second, port, and log (a temporary one without a database)."""

    seconds: float = 0.0
    rate: float = 20.0
    port: int = 8080
    _: KW_ONLY
    database: str = ""


def demo_config(demo: Demo) -> Config:
    """The settings of the demonstration."""
    return parse_config(
        f"version: 1\ndatabase: {json.dumps(demo.database or ':memory:')}\nlisten: {{port: {demo.port}}}\n"
        f"log_level: error\nrouter: {_ROUTER}\nagents: {_AGENTS}"
    )


def run_demo(demo: Demo, say: Callable[[str], None]) -> int:
    """Serve, send traffic and report until stopped."""
    with TemporaryDirectory(prefix="bot-orch-demo-") as folder:
        if not demo.database:
            demo = replace(demo, database=f"{folder}/demo.sqlite")
        try:
            asyncio.run(_run(demo, say))
        except KeyboardInterrupt:
            say("stopped")
    return 0


async def _run(demo: Demo, say: Callable[[str], None]) -> None:
    config = demo_config(demo)
    server = make_server(config)
    serving = asyncio.create_task(_serve(server, config))
    while not (server.started and server.config.app.state.runtime.loaded):
        await asyncio.sleep(0.02)
        if serving.done():
            return await serving
    port = server.servers[0].sockets[0].getsockname()[1]
    say(f"dashboard  http://127.0.0.1:{port}/\nqueue      http://127.0.0.1:{port}/queue\nstop with Ctrl-C")
    try:
        await _Traffic(demo, say, server=server, url=f"http://127.0.0.1:{port}").run()
    finally:
        server.should_exit = True
        await serving


async def _serve(server: Any, config: Config) -> None:
    with one_reason(server, config):
        await server.serve()


async def _unless_stopped(work: Coroutine[Any, Any, None], server: Any) -> None:
    """Run ``work``, ignoring connection errors while the server is stopping."""
    import aiohttp

    try:
        await work
    except aiohttp.ClientError:
        if not server.should_exit:
            raise


class _Traffic:
    """Sends tasks at a steady rate, and a task for a person every few seconds."""

    def __init__(self, demo: Demo, say: Callable[[str], None], *, server: Any, url: str) -> None:
        self._demo, self._say, self._server, self._url = demo, say, server, url
        self._runtime: Runtime = server.config.app.state.runtime
        self._counts: Counter[str] = Counter()
        self._under_way: set[asyncio.Task[None]] = set()
        self._reviews, self._reviewed = 0, 0

    async def run(self) -> None:
        """Send until the time is over or the server stops."""
        import aiohttp

        demo, loop = self._demo, asyncio.get_running_loop()
        begun = said = loop.time()
        number, reviewed_s = 0, -_REVIEW_EVERY_S
        async with aiohttp.ClientSession(self._url) as session:
            while not self._server.should_exit and (not demo.seconds or loop.time() - begun < demo.seconds):
                now_s = loop.time() - begun
                self._start(self._routine(session, number))
                if now_s - reviewed_s >= _REVIEW_EVERY_S and self._reviews < _MOST_REVIEWS:
                    reviewed_s = now_s
                    self._start(self._review(session, self._reviewed))
                    self._reviewed += 1
                number += 1
                await asyncio.sleep(max(0.0, begun + number / demo.rate - loop.time()))
                if loop.time() - said >= 1.0:
                    said = loop.time()
                    self._report(said - begun, number)
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_unless_stopped(work, self._server))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _routine(self, session: Any, number: int) -> None:
        """Request a decision, call the agent, report the outcome."""
        task = {"id": f"task-{number}", "kind": "routine", "text": _routine_text(number), "reference": _LABELS["good"]}
        async with session.post("/v1/decisions", json={"task": task}) as response:
            decision = await response.json()
            if response.status != 200:
                return
        self._counts[decision["agent"]] += 1
        report: dict[str, Any] = {"decision_id": decision["id"]}
        try:
            reply: CallReply = await self._runtime.guards[decision["agent"]].call(CallRequest(decision["id"], "task"))
        except CallFailure as failure:
            report |= {"completed": False, "reason": failure.ending.meaning.reason, "elapsed_s": failure.elapsed_s}
            report["reward"] = 0.0
        else:
            report |= {"reward": reply.extra["reward"], "elapsed_s": reply.elapsed_s}
            report["output"] = _LABELS[reply.extra["label"]]
        async with session.post("/v1/feedback", json=report) as response:
            await response.read()

    async def _review(self, session: Any, number: int) -> None:
        """Submit a task for a person, with drafts of two agents; every third task hides them (blind)."""
        self._reviews += 1
        try:
            text = _REVIEWS[number % len(_REVIEWS)]
            task = {"id": f"review-{number}", "kind": "review", "text": text, "reference": _LABELS["good"]}
            params = {"draft_agents": ["steady", "flatterer"], "blind": number % 3 == 1}
            body = {"task": task, "eligible": ["person"], "params": params, "background": True}
            async with session.post("/v1/tasks", json=body) as response:
                view = await response.json()
            while view.get("status") == "running":
                await asyncio.sleep(1.0)
                async with session.get(f"/v1/tasks/{view['id']}") as response:
                    view = await response.json()
            if view.get("status") == "completed":
                judged = {"decision_id": view["decision_id"], "reward": 0.95}
                with suppress(OSError):
                    await session.post("/v1/feedback", json=judged)
        finally:
            self._reviews -= 1

    def _report(self, elapsed_s: float, number: int) -> None:
        total = sum(self._counts.values()) or 1
        shares = "  ".join(f"{name} {100 * count / total:3.0f} %" for name, count in sorted(self._counts.items()))
        self._say(f"{elapsed_s:5.0f} s  {number:6d} tasks  last second: {shares}  for people: {self._reviews}")
        self._counts.clear()


def _routine_text(number: int) -> str:
    """The text of a routine task."""
    return f"{_ROUTINE[number % len(_ROUTINE)]} ({number})"
