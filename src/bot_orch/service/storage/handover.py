"""Background rounds among replicas: which were taken from us while we slept, and which of ours nobody works on.

A replica that was frozen does not know that it was given up. When it thaws, its rounds go on where they were, beside
those of whoever took them over. What they would write down from then on is not theirs to say: it is dropped, and the
rounds are cancelled.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from bot_orch.eventlog.events import (
    AttemptEnded,
    DecisionMade,
    Event,
    FeedbackGiven,
    Noted,
    TaskEnded,
    TaskSubmitted,
    decode_event,
)
from bot_orch.eventlog.log import Row
from bot_orch.service.storage.replica import ReplicaWriter

if TYPE_CHECKING:
    from bot_orch.service.runtime import Runtime

__all__ = ["TOOK", "Rounds"]

TOOK = "replica.took"
_ENDS = ("queue.expired", "queue.withdrawn")


class Rounds:
    """The background rounds of one replica.

    Parameters
    ----------
    runtime, writer
        The service and its writer; rows the writer follows are to be shown to :meth:`followed`.
    """

    def __init__(self, runtime: Runtime, writer: ReplicaWriter) -> None:
        self._runtime, self._writer = runtime, writer
        self._taken: set[str] = set()
        self._people = {agent.id for agent in runtime.config.agents if agent.kind == "human"}
        self._idle_since: dict[str, float] = {}

    def followed(self, row: Row) -> None:
        """Take a row that another replica has written."""
        if row.kind.startswith("note"):
            event = row.event()
            if isinstance(event, Noted) and event.topic == TOOK:
                self._hand_on(event.ref)
        elif row.kind.startswith("task-ended"):
            self._hand_on(row.ref)

    def rebuilt(self) -> None:
        """The log was read anew: rows that took rounds from us have passed unseen."""
        ours = [task_id for task_id in self._runtime.background if task_id in self._runtime.ledger.tasks]
        for task_id, owner in self._writer.shared.owners(ours).items():
            if owner != self._writer.shared.writer:
                self._hand_on(task_id)

    def took(self, task_ids: Collection[str]) -> None:
        """They are ours now, for the first time or again."""
        self._taken.difference_update(task_ids)

    def lost(self, event: Event) -> bool:
        """Whether it comes from a round that somebody else goes on with."""
        if not self._taken:
            return False
        match event:
            case TaskEnded():
                return event.id in self._taken
            case FeedbackGiven():
                return event.id == f"round-{event.decision_id}" and self._task_of(event.decision_id) in self._taken
            case AttemptEnded():  # a model that was asked twice costs twice, a person has answered once
                return event.agent in self._people and self._task_of(event.decision_id) in self._taken
            case Noted():
                return event.topic in _ENDS and event.data.get("reason") != "restart" and self._ticket_taken(event.ref)
        return False

    def idle(self, now_s: float) -> list[str]:
        """Open tasks that no background round of this process works on."""
        background, tasks = self._runtime.background, self._runtime.ledger.tasks
        self._taken = {task_id for task_id in self._taken if task_id in background or task_id in tasks}
        found = [task_id for task_id in tasks if task_id not in background]
        self._idle_since = {task_id: self._idle_since.get(task_id, now_s) for task_id in found}
        return found

    def forgotten(self, task_id: str, now_s: float, after_s: float) -> bool:
        """Whether it is a background round of ours that nothing works on since ``after_s``: storage failed under it."""
        if now_s - self._idle_since.get(task_id, now_s) < after_s:
            return False
        event = decode_event(self._runtime.ledger.tasks[task_id])
        return isinstance(event, TaskSubmitted) and event.background

    def _hand_on(self, task_id: str) -> None:
        task = self._runtime.background.get(task_id)
        if task is not None:
            self._taken.add(task_id)
            task.cancel()

    def _task_of(self, decision_id: str) -> str | None:
        rows = self._writer.log.about(decision_id)
        return next((event.task_ref for row in rows if isinstance(event := row.event(), DecisionMade)), None)

    def _ticket_taken(self, ticket_id: str) -> bool:
        state = getattr(self._runtime.queue, "state", None)
        ticket = None if state is None else state.tickets.get(ticket_id)
        return ticket is not None and ticket.task_id in self._taken
