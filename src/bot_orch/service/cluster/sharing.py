"""Limits of tokens across processes: each sends the others the usage of its routers.

A change is sent at once, and then at most twenty times a second; everything is sent every few seconds, in case
something was lost, and whenever a process asks for it, because it has just started. In between a process may admit a
request that a limit would have refused: as many as the others have admitted since their last message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec

from bot_orch.service.cluster.routers import Cluster
from bot_orch.service.operations.usage import SharedUse, TokenUsage

_log = logging.getLogger("bot_orch.cluster")
MOST_BYTES = 7000
"""Of a message: a notification of PostgreSQL has less than 8000."""
_PAUSE_S, _EVERYTHING_S, _DEADLINE_S = 0.05, 3.0, 5.0


class _UsageMessage(msgspec.Struct, array_like=True):
    asks: bool
    uses: list[SharedUse]


_DECODER = msgspec.json.Decoder(_UsageMessage)


class UsageSharing:
    """Sends the usage of this process to the others, and receives theirs.

    Parameters
    ----------
    usage
        Of this process.
    wire
        To the others.
    now_us
        Returns the current time, in microseconds like the events.
    """

    def __init__(self, usage: TokenUsage, wire: Cluster, now_us: Callable[[], int]) -> None:
        self._usage, self._wire, self._now_us = usage, wire, now_us
        self._due, self._asked = asyncio.Event(), True
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, and request the usage known to the other processes."""
        loop = asyncio.get_running_loop()

        def changed() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._due.set)

        self._usage.changed, self._wire.on_message = changed, self._take
        self._task = asyncio.create_task(self._forever(), name="usage")

    async def stop(self) -> None:
        """End."""
        self._usage.changed = self._wire.on_message = None
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _forever(self) -> None:
        await self._send([msgspec.json.encode(_UsageMessage(asks=True, uses=[]))])
        while True:
            everything, self._asked = self._asked, False
            self._due.clear()
            uses = self._usage.news(self._now_us(), everything=everything)
            if uses:
                await self._send([*_messages(uses)])
            await asyncio.sleep(_PAUSE_S)
            try:
                async with asyncio.timeout(_EVERYTHING_S):
                    await self._due.wait()
            except TimeoutError:
                self._asked = True

    async def _send(self, messages: Sequence[bytes]) -> None:
        try:
            async with asyncio.timeout(_DEADLINE_S):
                await self._wire.notify(messages)
        except Exception as error:  # everything is sent again later
            _log.debug("usage was not told", extra={"fields": {"detail": str(error)}})

    def _take(self, message: bytes) -> None:
        try:
            found = _DECODER.decode(message)
        except msgspec.MsgspecError:  # of another release
            return
        self._usage.merge(found.uses)
        if found.asks:
            self._asked = True
            self._due.set()


def _messages(uses: Sequence[SharedUse]) -> Iterator[bytes]:
    """Pack the usage into as few messages as possible."""
    waiting: list[SharedUse] = []
    size = 0
    for each in uses:
        more = len(msgspec.json.encode(each)) + 1
        if waiting and size + more > MOST_BYTES - 16:
            yield msgspec.json.encode(_UsageMessage(asks=False, uses=waiting))
            waiting, size = [], 0
        waiting.append(each)
        size += more
    if waiting:
        yield msgspec.json.encode(_UsageMessage(asks=False, uses=waiting))
