"""Timeouts of one attempt: total, first byte, gap between chunks and the caller's deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot_orch.agents.base import AgentMeter, CallFailure
from bot_orch.agents.endings import Ending
from bot_orch.agents.limits import Limits

__all__ = ["AttemptTimer"]

T = TypeVar("T")


class AttemptTimer:
    """Measures the time spent waiting for an agent and enforces its timeouts.

    Only time inside :meth:`wait` counts against the agent's own timeouts, so that a slow reader of a stream does not
    make the agent look slow. The caller's deadline is wall time.

    Parameters
    ----------
    limits
        The agent's timeouts.
    deadline_at
        The caller's deadline in event loop time.
    meter
        Adds up the time waited.
    """

    def __init__(self, limits: Limits, deadline_at: float | None = None, meter: AgentMeter | None = None) -> None:
        self._limits, self._meter = limits, meter
        self._deadline_at = deadline_at
        self._now = asyncio.get_running_loop().time
        self._timer: asyncio.Timeout | None = None
        self._ended = False
        self.waited_s = 0.0
        self.first_byte_s: float | None = None

    async def wait(self, ask: Callable[[], Awaitable[T]], *, streams: bool = False) -> T:
        """Await ``ask()``, the whole answer or (``streams``) its next piece, under the timeouts."""
        if self._ended:
            raise CallFailure(Ending.SHUTDOWN)
        bound, ending = self._bound(streams)
        begun = self._now()
        self._timer = timer = asyncio.timeout(bound)
        try:
            async with timer:
                return await ask()
        except TimeoutError:
            if not timer.expired():  # raised by the agent itself: a crash
                raise
            raise CallFailure(Ending.SHUTDOWN if self._ended else ending) from None
        finally:
            self._timer = None
            waited_s = self._now() - begun
            self.waited_s += waited_s
            if self._meter is not None:
                self._meter.seconds += waited_s

    def end(self) -> None:
        """Stop waiting now, because the process is shutting down."""
        self._ended = True
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(self._now())

    def mark_first_byte(self) -> None:
        """Record the time of the first content."""
        if self.first_byte_s is None:
            self.first_byte_s = self.waited_s

    def _bound(self, streams: bool) -> tuple[float | None, Ending]:
        limits, live = self._limits, streams and self.first_byte_s is not None
        rest: list[tuple[float, Ending]] = []
        total_s = limits.stream_total_s if live else limits.total_s
        if total_s is not None:
            rest.append((total_s - self.waited_s, Ending.TIMEOUT_TOTAL))
        if live and limits.idle_s is not None:
            rest.append((limits.idle_s, Ending.TIMEOUT_IDLE))
        if streams and not live and limits.first_byte_s is not None:
            rest.append((limits.first_byte_s - self.waited_s, Ending.TIMEOUT_FIRST_BYTE))
        if self._deadline_at is not None:
            rest.append((self._deadline_at - self._now(), Ending.CALLER_DEADLINE))
        return min(rest, key=lambda pair: pair[0]) if rest else (None, Ending.TIMEOUT_TOTAL)
