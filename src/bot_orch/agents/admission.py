"""Admission to one agent: concurrency slots, a bounded number of waiting calls, and pauses requested by the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum

from bot_orch.agents.limits import LONGEST_HOLD_S, Limits

_ALL = 1_000_000_000


class Refusal(StrEnum):
    """Why a call would not be admitted now; the value appears in decisions, answers and views."""

    CIRCUIT = "circuit open"
    HOLD = "the agent asked to slow down"  # by a Retry-After
    BUSY = "at its concurrency limit"
    STOPPING = "stopping"


class Admission:
    """Concurrency slots of one agent.

    Parameters
    ----------
    limits
        ``concurrency``, ``wait_s`` and ``max_waiting`` count.
    clock
        Monotonic clock of holds.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits, self._clock = limits, clock
        self._slots = asyncio.Semaphore(limits.slots)
        self._held_until = -float("inf")
        self.waiting = 0

    @property
    def held_s(self) -> float:
        """Seconds for which the agent has requested not to be called."""
        return max(0.0, self._held_until - self._clock())

    @property
    def refusal(self) -> Refusal | None:
        """Why a call would be refused; None if it would get a slot, or may wait for one."""
        if self.held_s:
            return Refusal.HOLD
        return Refusal.BUSY if self._slots.locked() and not self._may_wait else None

    def hold(self, seconds: float) -> float:
        """Refuse calls for so many seconds, a minute at most; returns the seconds. Zero ends a hold."""
        seconds = min(seconds, LONGEST_HOLD_S)
        self._held_until = self._clock() + seconds
        return seconds

    async def enter(self, deadline_at: float | None = None) -> bool:
        """Take a slot, waiting up to ``wait_s`` or the caller's deadline; returns whether one was obtained."""
        if not self._slots.locked():
            return await self._slots.acquire()  # does not wait
        if not self._may_wait:
            return False
        until = asyncio.get_running_loop().time() + self._limits.wait_s
        self.waiting += 1
        try:
            async with asyncio.timeout_at(until if deadline_at is None else min(until, deadline_at)):
                return await self._slots.acquire()
        except TimeoutError:
            return False
        finally:
            self.waiting -= 1

    def leave(self) -> None:
        """Release the slot."""
        self._slots.release()

    @property
    def _may_wait(self) -> bool:
        return self._limits.wait_s > 0 and self.waiting < self._limits.max_waiting


class OpenAdmission(Admission):
    """Admits every call: for calls that another process has already admitted."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        super().__init__(replace(limits, concurrency=_ALL), clock)

    def hold(self, seconds: float) -> float:
        """Return the seconds; the process that admitted the call applies the hold."""
        return seconds
