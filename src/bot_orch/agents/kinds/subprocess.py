"""Programs as agents: one JSON document on standard input, one on standard output."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from bot_orch.agents.base import CallFailure, CallReply, CallRequest, Chunk
from bot_orch.agents.endings import Ending
from bot_orch.agents.limits import Limits
from bot_orch.agents.replies import in_one_piece, load_json, reply_from_value, request_document
from bot_orch.agents.writing import encode
from bot_orch.errors import InvalidInputError

_PIECE = 65_536
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
_NO_ENV: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SubprocessSettings:
    """The program and its arguments; no shell is used.

    ``env`` extends a small inherited environment (PATH, HOME, locale, time zone); secrets of this process are
    not passed on.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=lambda: _NO_ENV, repr=False)
    cwd: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "command", tuple(self.command))
        if not self.command or not all(isinstance(part, str) and "\0" not in part for part in self.command):
            raise InvalidInputError("command", "is empty or holds something other than words", "write [program, arg]")


class SubprocessRunner:
    """Runner that starts the program for every call in a new process group, which ends with the call.

    The whole group is killed at the end of every call: after a timeout, a cancellation, an oversized answer, and also
    after a normal exit. A child that starts its own session escapes; only a container prevents that.
    """

    streams = False

    def __init__(self, settings: SubprocessSettings, limits: Limits | None = None) -> None:
        self._settings = settings
        self._limits = limits or Limits()
        self._running: set[Process] = set()
        self._closed = False
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        self._env = {**inherited, **settings.env}

    async def call(self, request: CallRequest) -> CallReply:
        """Run the program; returns its output if it exits with status 0."""
        payload = await encode(request_document(request), self._limits.max_request_bytes)
        process = await self._start()
        self._running.add(process)
        try:
            if self._closed:  # closed during start
                raise CallFailure(Ending.SHUTDOWN)
            data = await self._converse(process, payload)
            code = await process.wait()
        finally:
            self._running.discard(process)
            await _end(process)
        if code:
            raise CallFailure(
                Ending.OUT_OF_MEMORY if code == -signal.SIGKILL else Ending.CRASHED, f"exit status {code}"
            )
        return reply_from_value(load_json(data))

    async def stream(self, request: CallRequest) -> AsyncGenerator[Chunk, None]:
        """Stream the answer as a single chunk."""
        async for chunk in in_one_piece(await self.call(request)):
            yield chunk

    async def close(self) -> None:
        """Kill all running programs."""
        self._closed = True
        for process in tuple(self._running):
            _kill_group(process)

    async def _start(self) -> Process:
        s = self._settings
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *s.command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=self._env, cwd=s.cwd, start_new_session=True
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:  # do not leave a started program behind
            with suppress(OSError):
                await _end(await starting)
            raise
        except OSError as error:
            raise CallFailure(Ending.CRASHED, f"cannot start: {type(error).__name__}", started=False) from None

    async def _converse(self, process: Process, payload: bytes) -> bytes:
        """Write and read concurrently, because a program may answer before it has read all input."""
        writing = asyncio.ensure_future(_write(process, payload))
        try:
            return await self._read(process)
        finally:
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing

    async def _read(self, process: Process) -> bytes:
        data = bytearray()
        while piece := await process.stdout.read(1 << 16):  # type: ignore[union-attr]
            data += piece
            if len(data) > self._limits.max_reply_bytes:
                raise CallFailure(Ending.TOO_LARGE)
        return bytes(data)


async def _write(process: Process, payload: bytes) -> None:
    pipe = process.stdin
    if pipe is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):  # the program may ignore its input
        for begin in range(0, len(payload), _PIECE):  # the pipe would move what it cannot send at once again and again
            pipe.write(payload[begin : begin + _PIECE])
            await pipe.drain()
        pipe.close()  # no wait_closed(), which cannot be cancelled


async def _end(process: Process) -> None:
    _kill_group(process)
    transport = process._transport  # type: ignore[attr-defined]
    for pipe in (transport.get_pipe_transport(0), transport.get_pipe_transport(1)):
        if pipe is not None:  # avoids waiting for a pipe held by an escaped child
            pipe.close()
    await process.wait()
    transport.close()


def _kill_group(process: Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
