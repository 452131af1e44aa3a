"""Serve a configuration, send three chats, report the results, and keep serving."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any

from bot_orch.service.config import Config
from bot_orch.service.server import make_server, one_reason

CHATS = (
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Is 91 a prime number? Answer in one line.",
)
_CHAT_S = 180.0
_REWARD_S = 5.0
_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Try:
    """Options of a quickstart: the settings, how to reload them, whether to stop after the chats or open a page."""

    config: Config
    read: Callable[[], Config]
    say: Callable[[str], None]
    _: KW_ONLY
    file: str
    once: bool = False
    browser: bool = True


def run_quickstart(wanted: Try) -> int:
    """Serve until Ctrl-C, or until the chats are answered; returns 1 if one of them failed."""
    try:
        with _quiet():
            return asyncio.run(_run(wanted))
    except KeyboardInterrupt:
        wanted.say(f"stopped; go on with: bot-orch serve {wanted.file}")
        return 0


async def _run(wanted: Try) -> int:
    server = make_server(wanted.config, read=wanted.read)
    serving = asyncio.create_task(_serve(server, wanted.config))
    while not (server.started and server.config.app.state.router.runtime.loaded):
        await asyncio.sleep(0.02)
        if serving.done():
            await serving
            return 3
    url = f"http://{wanted.config.listen.host}:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        failures = await _chats(url, wanted)
        _tell(url, wanted)
        if not wanted.once:
            if wanted.browser and _has_browser():
                await asyncio.to_thread(webbrowser.open, url)
            await serving
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await serving
    return 1 if failures and wanted.once else 0


async def _serve(server: Any, config: Config) -> None:
    with one_reason(server, config):
        await server.serve()


@contextmanager
def _quiet() -> Iterator[None]:
    """Show only errors in the log output."""
    logger = logging.getLogger("bot_orch")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


async def _chats(url: str, wanted: Try) -> int:
    """Send the chats one after another; returns the number of failures."""
    import aiohttp

    say, failures, learned = wanted.say, 0, 0
    at_once = not wanted.config.judges
    async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(total=_CHAT_S)) as session:
        for number, text in enumerate(CHATS, 1):
            say(f'{number}. "{text}"')
            try:
                decision, problem = await _chat(session, text, say)
                reward = await _reward(session, decision, wait_s=_REWARD_S if at_once else 0.0) if decision else None
            except (aiohttp.ClientError, TimeoutError) as error:  # as after Ctrl-C
                decision, reward, problem = "", None, f"no answer ({type(error).__name__})"
            if problem:
                failures += 1
                say(f"   failed: {problem}")
            if decision:
                learned += reward is not None
                say(f"   decision {decision}, {'no reward yet' if reward is None else f'reward {reward:.2f}'}")
    say(f"chats: {len(CHATS)}, failed: {failures}, learned from: {learned}")
    return failures


async def _chat(session: Any, text: str, say: Callable[[str], None]) -> tuple[str, str]:
    """Send one chat; returns the id of its decision, and the error."""
    body = {"model": "auto", "messages": [{"role": "user", "content": text}]}
    async with session.post("/v1/chat/completions", json=body) as response:
        document, headers = await response.json(), response.headers
    decision = headers.get("x-bot-orch-decision-id", "")
    if response.status != 200:
        return decision, str(document["error"]["message"])
    answer = document["choices"][0]["message"].get("content") or ""
    propensity = float(headers["x-bot-orch-propensity"])
    say(f"   {headers['x-bot-orch-agent']} (propensity {propensity:.2f}): {_short(answer)}")
    return decision, ""


async def _reward(session: Any, decision: str, *, wait_s: float) -> float | None:
    """Wait for the reward of a decision, which is logged after the answer."""
    now = asyncio.get_running_loop().time
    end = now() + wait_s
    while True:
        async with session.get(f"/v1/decisions/{decision}") as response:
            view = await response.json()
        rewards = [each["reward"] for each in view.get("outcomes", ()) if each.get("reward") is not None]
        if rewards or now() >= end:
            return float(rewards[-1]) if rewards else None
        await asyncio.sleep(0.02)


def _short(text: str) -> str:
    plain = "".join(each if each.isprintable() else " " for each in " ".join(text.split()))
    return plain if len(plain) <= _WIDTH else plain[: _WIDTH - 3] + "..."


def _tell(url: str, wanted: Try) -> None:
    wanted.say(f"dashboard  {url}/")
    wanted.say(f'gateway    {url}/v1 (for any OpenAI client; model "auto")')
    if not wanted.once:
        wanted.say(f"stop with Ctrl-C; later: bot-orch serve {wanted.file}")


def _has_browser() -> bool:
    """Whether a browser window can be opened; a text browser would take over the terminal."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True
