"""Work in progress: named background tasks, and decisions whose agents have not answered."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["BackgroundTasks", "DecisionsInFlight"]


class BackgroundTasks:
    """Named asyncio tasks that outlive the requests that started them."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work``; it is listed under ``name`` until it ends."""
        task = self._tasks[name] = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda ended: self._remove(name, ended))

    def cancel(self, name: str) -> bool:
        """Cancel a task; returns whether it existed."""
        task = self._tasks.get(name)
        if task is not None:
            task.cancel()
        return task is not None

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
