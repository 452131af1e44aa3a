"""How much code a request passes: calls, files and changes of file of five flows, counted on the code that users run.

A call is that of a function of ``bot_orch`` (a coroutine counts each time it goes on), a switch one from a function of
another file. Library flows run in memory, the others on a server with SQLite whose agent is a model on loopback. Each
flow runs a few times, after a warm-up; the run with the fewest calls is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import bot_orch
from bot_orch import Orchestrator, Outcome, Task
from bot_orch.service.config import parse_config
from bot_orch.service.server import make_server

ROOT = str(Path(bot_orch.__file__).parent)
WARM, TIMES, PIECES = 3, 5, 3
CONFIG = """
version: 1
database: {folder}/log.sqlite
listen: {{port: 0}}
agents:
  - {{id: small, kind: openai, base_url: "{model}/v1", model: m}}
  - {{id: large, kind: openai, base_url: "{model}/v1", model: m}}
"""
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "What is a bandit?"}]}


class Trace:
    """Calls of the package on one thread, while it is on."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            self.files.append(frame.f_code.co_filename[len(ROOT) + 1 :])

    def row(self) -> tuple[int, int, int]:
        """Calls, files and switches."""
        switches = sum(one != other for one, other in zip(self.files, self.files[1:], strict=False))
        return len(self.files), len(set(self.files)), switches


def library() -> dict[str, Callable[[], Any]]:
    """Decide, and observe the outcome."""
    router, ids = Orchestrator(["small", "large"], policy="auto", seed=0), iter(range(10**6))
    made: list[Any] = []

    def decide() -> None:
        made.append(router.decide(Task(id=str(next(ids)))))

    return {
        "library decide": decide,
        "library observe": lambda: router.observe(made.pop().id, Outcome.completed(reward=1.0)),
    }


def traced(run: Callable[[], Any]) -> Trace:
    """Run on this thread."""
    trace = Trace()
    sys.setprofile(trace)
    try:
        run()
    finally:
        sys.setprofile(None)
    return trace


class Server:
    """A service in a thread; what it does is traced there."""

    def __init__(self, folder: str, model: str) -> None:
        self._server = make_server(parse_config(CONFIG.format(folder=folder, model=model)))
        self._listening = threading.Event()
        self._server.announce = self._announce
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._listening.wait(30)
        while self._ask("GET", "/health/ready").status != 200:
            time.sleep(0.05)

    def _announce(self, port: int) -> None:
        self._port = port
        self._listening.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve()

    def traced(self, path: str, body: dict[str, Any]) -> Trace:
        """Send a request, and wait for its answer and what follows it."""
        trace = Trace()
        self._call(lambda: sys.setprofile(trace))
        answer = self._ask("POST", path, body)
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status}")
        self._call(lambda: sys.setprofile(None))
        return trace

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer

    def stop(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join()

    def _call(self, function: Callable[[], Any]) -> None:
        async def run() -> None:
            function()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result()


def model() -> str:
    """A model on loopback, in a thread; its URL."""
    from aiohttp import web

    found: list[str] = []
    listening = threading.Event()

    async def chat(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if not asked.get("stream"):
            said = {"index": 0, "message": {"role": "assistant", "content": "A choice."}, "finish_reason": "stop"}
            return web.json_response({"id": "c", "object": "chat.completion", "model": "m", "choices": [said]})
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        for number in range(PIECES):
            choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": "stop" if number == 2 else None}
            event = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
            await answer.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            await asyncio.sleep(0.02)
        await answer.write(b"data: [DONE]\n\n")
        return answer

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        found.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        listening.set()
        await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    listening.wait(30)
    return found[0]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/flow.py --files")
    parser.add_argument("--files", action="store_true", help="print the calls by file of every flow")
    arguments = parser.parse_args()
    runs: dict[str, Callable[[], Trace]] = {name: partial(traced, run) for name, run in library().items()}
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, model())
        runs["HTTP decision"] = lambda: server.traced("/v1/decisions", {"task": {"id": "t"}})
        runs["chat"] = lambda: server.traced("/v1/chat/completions", CHAT)
        runs["streamed chat"] = lambda: server.traced("/v1/chat/completions", {**CHAT, "stream": True})
        found: dict[str, list[Trace]] = {name: [] for name in runs}
        for _ in range(WARM + TIMES):
            for name, run in runs.items():  # decide before observe
                found[name].append(run())
        server.stop()
    print("flow, calls, files, switches")
    for name, traces in found.items():
        least = min(traces[WARM:], key=lambda trace: trace.row())
        print(name, *least.row(), sep=", ")
        for file, calls in Counter(least.files).most_common() if arguments.files else ():
            print(f"    {calls:4} {file}")


if __name__ == "__main__":
    main()
