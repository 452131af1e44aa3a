"""Guardrails before and after the call of an agent: functions or programs that pass, change or refuse."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import os
import signal
from collections.abc import Mapping
from typing import Any

from bot_orch.agents.kinds.python import load_function
from bot_orch.errors import InvalidInputError
from bot_orch.service.config import GuardrailConfig
from bot_orch.service.problems import Problem

_log = logging.getLogger("bot_orch.guardrails")
_PASSED = ("PATH", "LANG", "HOME", "TZ")


class Screens:
    """The guardrails of a service, in the order of the configuration.

    A verdict is nothing (pass), ``{"refuse": reason}``, ``{"messages": [...]}`` before a call or ``{"text": ...}``
    after it. One that fails or takes too long refuses, unless ``on_error: pass``.
    """

    def __init__(self, settings: tuple[GuardrailConfig, ...] = ()) -> None:
        self._settings = settings
        self._functions = {place: _function(each, place) for place, each in enumerate(settings)}
        self.before = tuple(place for place, each in enumerate(settings) if each.when == "before")
        self.after = tuple(place for place, each in enumerate(settings) if each.when == "after")

    async def changed(self, when: str, document: dict[str, Any]) -> tuple[dict[str, Any], GuardrailConfig | None]:
        """Apply all guardrails of one side; returns the changed document, and the guardrail that refused it, if any."""
        for place in self.before if when == "before" else self.after:
            verdict = await self._ask(place, {"when": when, **document})
            if verdict.get("refuse"):
                return {**document, "refuse": str(verdict["refuse"])}, self._settings[place]
            known = {name: verdict[name] for name in ("messages", "text") if name in verdict}
            document = {**document, **known}
        return document, None

    async def _ask(self, place: int, document: dict[str, Any]) -> Mapping[str, Any]:
        settings = self._settings[place]
        try:
            async with asyncio.timeout(settings.timeout_s):
                verdict = await self._verdict(place, document)
            if verdict is not None and not isinstance(verdict, Mapping):
                raise TypeError("a verdict is an object or nothing")
            return verdict or {}
        except Exception as error:
            _log.warning("guard failed", extra={"fields": {"guard": place, "error": type(error).__name__}})
            return {} if settings.on_error == "pass" else {"refuse": "a guard has failed; the log has details"}

    async def _verdict(self, place: int, document: dict[str, Any]) -> Any:
        function = self._functions[place]
        if function is None:
            return await _run(self._settings[place].command, document)
        if inspect.iscoroutinefunction(function):
            return await function(document)
        return await asyncio.to_thread(function, document)


def refusal(reason: str) -> Problem:
    """The answer to a request that a guardrail has refused."""
    return Problem(400, "refused_by_guard", reason, kind="guard_refusal", headers={"x-should-retry": "false"})


def _function(settings: GuardrailConfig, place: int) -> Any:
    if (settings.path is None) == (not settings.command):
        raise InvalidInputError(f"config.guardrails[{place}]", "needs one of path and command", "keep exactly one")
    return None if settings.path is None else load_function(settings.path, settings.folder)


async def _run(command: tuple[str, ...], document: dict[str, Any]) -> Any:
    """Run a program and parse its JSON answer, if any; its process group ends with the call."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _PASSED if name in os.environ},
        start_new_session=True,
    )
    try:
        said, _ = await process.communicate(json.dumps(document).encode())
        if process.returncode:
            raise RuntimeError("the program ended with an error")
        return json.loads(said) if said.strip() else None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
