"""Work in progress: named background tasks, and decisions whose agents have not answered."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

_DAY_S = 86_400.0
_BURST = 0.04  # of a day's dollars may be spent at once; the rest accrues evenly


class BackgroundTasks:
    """Named asyncio tasks that outlive the requests that started them."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work``; it is listed under ``name`` until it ends."""
        task = self._tasks[name] = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda ended: self._remove(name, ended))

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __contains__(self, name: object) -> bool:
        return name in self._tasks

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._tasks))

    def _remove(self, name: str, ended: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is ended:
            del self._tasks[name]


class DecisionsInFlight:
    """Decisions whose agents are still working; the horizon does not apply to them.

    Examples
    --------
    >>> in_flight = DecisionsInFlight()
    >>> with in_flight.working("d-1"):
    ...     list(in_flight), "d-1" in in_flight
    (['d-1'], True)
    >>> "d-1" in in_flight, bool(in_flight)
    (False, False)
    """

    def __init__(self) -> None:
        self._own: set[str] = set()
        self._resumed: set[str] = set()

    @contextmanager
    def working(self, decision_id: str, *, resumed: bool = False) -> Iterator[None]:
        """Count a decision as in flight inside the ``with`` block.

        ``resumed``: if this process stops, the next one goes on where it was, so that no stop has to wait for it.
        """
        self._own.add(decision_id)
        if resumed:
            self._resumed.add(decision_id)
        try:
            yield
        finally:
            self._own.discard(decision_id)
            self._resumed.discard(decision_id)

    @property
    def lost_by_a_stop(self) -> int:
        """Number of decisions that must be repeated if this process stops now."""
        return len(self._own) - len(self._resumed)

    def __contains__(self, decision_id: object) -> bool:
        return decision_id in self._own

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._own))

    def __len__(self) -> int:
        return len(self._own)


class ShadowAllowance:
    """Dollars for shadow calls, which accrue over the day; there are none at first, so that a restart grants nothing.

    Examples
    --------
    >>> allowance = ShadowAllowance()
    >>> allowance.take(0.01, 1, 5.0), allowance.take(0.01, 600_000_000, 5.0)
    (False, True)
    """

    def __init__(self) -> None:
        self._usd, self._now_us = 0.0, 0

    def take(self, usd: float, now_us: int, per_day: float) -> bool:
        """Take the expected dollars of a call if they are there."""
        elapsed_us = max(0, now_us - self._now_us) if self._now_us else 0
        accrued = (1.0 - _BURST) * per_day * elapsed_us / (1e6 * _DAY_S)
        self._usd, self._now_us = min(self._usd + accrued, _BURST * per_day), now_us
        if per_day <= 0.0 or usd > self._usd:
            return False
        self._usd -= usd
        return True

    def settle(self, expected: float, spent: float) -> None:
        """Replace the expected dollars of a call by what it cost."""
        self._usd += expected - spent
