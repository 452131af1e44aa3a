"""Where a router's orchestrator lives: in memory, or (:mod:`bot_orch.router.journal`) behind a log in a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from sqlite3 import Error as SqliteError
from typing import Any, Protocol

from bot_orch.clock import Clock
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.types import Agent, Decision, Measure, Outcome, Task

__all__ = ["Book", "MemoryBook", "open_book"]


class Book(Protocol):
    """Applies every change to an orchestrator; a durable one records it first."""

    @property
    def orchestrator(self) -> Orchestrator:
        """The orchestrator; to be read, not to be changed directly."""
        ...

    def waiting(self, now_us: int) -> dict[str, int]:
        """Pending decisions and when they were made, oldest first; ``now_us`` where that is not known."""
        ...

    def recent(self, most: int) -> list[tuple[Decision, Outcome | None]]:
        """The last ``most`` decisions at most, oldest first, with outcomes where there are some."""
        ...

    def decide(self, task: Task, eligible: Collection[str] | None) -> Decision:
        """See :meth:`bot_orch.Orchestrator.decide`."""
        ...

    def observe(self, decision_id: str, outcome: Outcome, *, audit: bool = False, default: bool = False) -> None:
        """See :meth:`bot_orch.Orchestrator.observe`."""
        ...

    def observe_output(self, decision_id: str, output: Measure) -> None:
        """See :meth:`bot_orch.Orchestrator.observe_output`."""
        ...

    def observe_all(self, decision_id: str, rewards: Mapping[str, float]) -> None:
        """See :meth:`bot_orch.Orchestrator.observe_all`."""
        ...

    def learn_from(
        self, evaluations: Any, *, features: Any = None, tasks: Any = None, weight: Any = 1.0, most: float | None = None
    ) -> int:
        """See :meth:`bot_orch.Orchestrator.learn_from`."""
        ...

    def add_agent(self, agent: Agent) -> None:
        """See :meth:`bot_orch.Orchestrator.add_agent`."""
        ...

    def remove_agent(self, agent_id: str) -> None:
        """See :meth:`bot_orch.Orchestrator.remove_agent`."""
        ...

    def close(self) -> None:
        """Close files."""
        ...


class MemoryBook:
    """An orchestrator in memory: every call goes straight to it."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self.orchestrator = orchestrator
        self.decide = orchestrator.decide
        self.observe = orchestrator.observe
        self.observe_output = orchestrator.observe_output
        self.observe_all = orchestrator.observe_all
        self.learn_from = orchestrator.learn_from
        self.add_agent = orchestrator.add_agent
        self.remove_agent = orchestrator.remove_agent

    def waiting(self, now_us: int) -> dict[str, int]:
        """See :class:`Book`."""
        return dict.fromkeys(self.orchestrator.pending, now_us)

    def recent(self, most: int) -> list[tuple[Decision, Outcome | None]]:
        """None: an orchestrator does not keep them."""
        return []

    def close(self) -> None:
        """Nothing to close."""


def open_book(path: str | Path | None, orchestrator: Orchestrator, clock: Clock, *, fresh: bool) -> Book:
    """The book of a router: in memory, or in a file."""
    if path is None:
        return MemoryBook(orchestrator)
    if not isinstance(path, str | Path) or not str(path):
        raise InvalidInputError("path", f"is {path!r}", "pass the path of a file, or None")
    if not fresh:
        raise InvalidInputError("path", "is given with an orchestrator", "pass agents and settings")
    from bot_orch.router.journal import Journal  # an extra

    if Path(path).is_dir():
        raise InvalidInputError("path", f"{path} is a directory", "pass the path of a file, new or written by a router")
    try:
        return Journal(path, orchestrator, clock)
    except (OSError, SqliteError) as error:
        if isinstance(error, BotOrchError):
            raise
        remedy = "pass the path of a file that this process may read and write"
        raise InvalidInputError("path", f"{path} cannot be opened ({error})", remedy) from error
