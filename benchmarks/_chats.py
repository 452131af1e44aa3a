"""Chats to the owner of a router and to a front, and the processor time that each of them takes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from _serving import PORT, _cpu_s, _tree

from service import _wait

__all__ = ["ChatCost", "Workers", "chat_cost", "owner_killed", "workers"]

_PROMPT = "Summarise the report on the third quarter for the board, in plain words and at most five sentences. " * 4
_AT_ONCE = 16
_WARM = 1000  # chats: the first ones are dearer, while the encoder is fitted


@dataclass(frozen=True)
class ChatCost:
    """Processor milliseconds per chat of the owner and of the front, and chats per second."""

    owner_ms: float
    front_ms: float
    rate: float

    def __str__(self) -> str:
        each = f"of the owner {self.owner_ms:.3f} ms, of the front {self.front_ms:.3f} ms"
        return f"{self.rate:.0f} chats/s, processor {each}"


@dataclass(frozen=True)
class Workers:
    """The two workers of a service: their processes, and the folder of their sockets."""

    owner: int
    front: int
    folder: Path


@contextmanager
def workers(folder: Path) -> Iterator[Workers]:
    """`serve --workers 2` on SQLite as the quickstart sets it up, in front of a model on loopback."""
    model, port = PORT + 7, PORT + 8
    loopback = [sys.executable, str(Path(__file__).with_name("_loopback.py")), "model", str(model)]
    agents = []
    for name in ("small", "large"):
        url = f"http://127.0.0.1:{model}/{name}/v1"
        agents.append({"id": name, "kind": "openai", "base_url": url, "model": name})
    document = {
        "version": 1,
        "database": str(folder / "chats.sqlite"),
        "listen": {"port": port},
        "log_level": "error",
        "router": {"policy": "auto", "encoder": "builtin", "success_reward": 1.0},
        "agents": agents,
    }
    (config := folder / "chats.yaml").write_text(json.dumps(document))
    command = [sys.executable, "-m", "bot_orch", "serve", str(config), "--workers", "2"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    processes = [subprocess.Popen(loopback), subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)]  # noqa: S603
    try:
        _wait(port, seconds=120.0)
        sockets = next(folder.glob("bot-orch-*"))
        children = _tree(processes[1].pid)[1:]
        [owner] = [each for each in children if _has_open(each, folder / "chats.sqlite")]
        [front] = [each for each in children if each != owner]
        asyncio.run(_chat(sockets / "0.sock", _WARM, pieces=0))
        yield Workers(owner, front, sockets)
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _has_open(pid: int, file: Path) -> bool:
    links = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(each.readlink())
        except OSError:
            continue
    return file in links


def chat_cost(found: Workers, at: int, number: int, *, pieces: int) -> ChatCost:
    """The cost of some chats that one of the workers is asked for, streamed in so many pieces, or whole."""
    asyncio.run(_chat(found.folder / f"{at}.sock", 64, pieces=pieces))  # warm
    begun, owner, front = time.perf_counter(), _cpu_s(found.owner), _cpu_s(found.front)
    asyncio.run(_chat(found.folder / f"{at}.sock", number, pieces=pieces))
    ms = 1e3 / number
    seconds = time.perf_counter() - begun
    return ChatCost(ms * (_cpu_s(found.owner) - owner), ms * (_cpu_s(found.front) - front), number / seconds)


async def _chat(path: Path, number: int, *, pieces: int) -> None:
    rest = iter(range(number))
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path), limit=0)) as session:

        async def work() -> None:
            for each in rest:
                body = {
                    "model": "auto",
                    "stream": pieces > 0,
                    "max_tokens": pieces or None,
                    "messages": [{"role": "user", "content": f"{_PROMPT} {each}"}],
                }
                async with session.post("http://localhost/v1/chat/completions", json=body) as answer:
                    text = await answer.read()
                    if answer.status != 200 or (pieces and text.count(b"content") < pieces):
                        raise SystemExit(f"a chat was answered with {answer.status}: {text[:300]!r}")

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


def owner_killed(found: Workers, seconds: float = 10.0) -> tuple[float, int, int]:
    """Kill the owner while the front is asked: the longest pause, errors, and those that one retry did not heal."""
    return asyncio.run(_owner_killed(found, seconds))


async def _owner_killed(found: Workers, seconds: float) -> tuple[float, int, int]:
    begun, pauses, errors, unhealed = time.monotonic(), [0.0], 0, 0
    connector = aiohttp.UnixConnector(str(found.folder / "1.sock"), limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask() -> bool:
            body = {"model": "auto", "messages": [{"role": "user", "content": _PROMPT}]}
            async with session.post("http://localhost/v1/chat/completions", json=body) as answer:
                await answer.read()
                return answer.status == 200

        async def work() -> None:
            nonlocal errors, unhealed
            while time.monotonic() - begun < seconds:
                asked = time.monotonic()
                if not await ask():
                    errors += 1
                    await asyncio.sleep(1.0)  # as Retry-After says
                    unhealed += not await ask()
                pauses.append(time.monotonic() - asked)

        workers_ = [asyncio.ensure_future(work()) for _ in range(_AT_ONCE)]
        await asyncio.sleep(2.0)
        os.kill(found.owner, signal.SIGKILL)
        await asyncio.gather(*workers_)
    return max(pauses), errors, unhealed
