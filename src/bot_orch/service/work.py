"""What is under way: background tasks by name, and decisions whose agents have not answered yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["BackgroundTasks", "DecisionsInFlight"]

_MANY = 10_000


class BackgroundTasks:
    """Asyncio tasks that outlive the request that started them, each under a name of its own.

    ``tasks_of`` holds the names of rounds by the decisions that they have made.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.tasks_of: dict[str, str] = {}

    def remember(self, decision_id: str, name: str) -> None:
        """Note that a decision belongs to the round of that name; those of rounds that have ended are forgotten."""
        if len(self.tasks_of) > _MANY:
            self.tasks_of = {each: task for each, task in self.tasks_of.items() if task in self._tasks}
        self.tasks_of[decision_id] = name

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work``; it is listed under ``name`` until it ends."""
        task = self._tasks[name] = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda ended: self._remove(name, ended))

    def cancel(self, name: str) -> bool:
        """Cancel a task; whether there is one of that name."""
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
    """Decisions whose agents still work: the horizon does not run for them.

    Iterating gives those of this process; ``in`` also finds those of registered sources.

    Examples
    --------
    >>> in_flight = DecisionsInFlight()
    >>> in_flight.register(lambda: {"theirs"})
    >>> with in_flight.working("ours"):
    ...     list(in_flight), "ours" in in_flight, "theirs" in in_flight
    (['ours'], True, True)
    >>> "ours" in in_flight, bool(in_flight)
    (False, False)
    """

    def __init__(self) -> None:
        self._own: set[str] = set()
        self._resumed: set[str] = set()
        self._sources: list[Callable[[], Collection[str]]] = []

    def register(self, source: Callable[[], Collection[str]]) -> None:
        """Also count what ``source`` returns, such as decisions in flight at other replicas."""
        self._sources.append(source)

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
        """How many decisions of this process must be made or carried out again if it stops now."""
        return len(self._own) - len(self._resumed)

    def __contains__(self, decision_id: object) -> bool:
        return decision_id in self._own or any(decision_id in source() for source in self._sources)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._own))

    def __len__(self) -> int:
        return len(self._own)
