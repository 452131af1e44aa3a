"""Handover of background rounds between replicas.

A replica that was suspended does not know that others presumed it dead. When it resumes, its rounds continue beside
those of the replica that took them over. From the takeover on, whatever the old rounds would write is dropped, and the
rounds are cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import KW_ONLY, dataclass

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
from bot_orch.service.reports import ReportSource, source_of
from bot_orch.service.storage.replica import ReplicaWriter
from bot_orch.service.work import BackgroundTasks, DecisionsInFlight

__all__ = ["TOOK", "BackgroundRounds", "LocalWork"]

TOOK = "replica.took"


@dataclass(frozen=True, slots=True)
class LocalWork:
    """What one replica does by itself, as far as the others are concerned.

    Parameters
    ----------
    background, in_flight
        Rounds by task id, and decisions whose agents still work.
    agents
        Agents this replica can call, by name; read when needed, as they are built later.
    people
        Those of them that are people; as the agents, they may change.
    horizon_s
        How long a decision may go without an outcome, now.
    round_of_note
        The task whose round has written a note, if a round has; the queue knows.
    versioned
        Whether the agents are those of a version of the configuration that all replicas share.
    """

    background: BackgroundTasks
    in_flight: DecisionsInFlight
    _: KW_ONLY
    agents: Mapping[str, object]
    people: Container[str]
    horizon_s: Callable[[], float]
    round_of_note: Callable[[Noted], str | None]
    versioned: bool = False


class BackgroundRounds:
    """The background rounds of one replica.

    Parameters
    ----------
    local, writer
        What this replica does, and its writer.
    """

    def __init__(self, local: LocalWork, writer: ReplicaWriter) -> None:
        self._local, self._writer = local, writer
        self._taken: set[str] = set()
        writer.staged.subscribe(self._staged)
        self._idle_since: dict[str, float] = {}
        writer.followed.subscribe(self._followed)
        writer.rebuilt.subscribe(self._rebuilt)
        writer.drop_if(self._is_stale)

    def took(self, task_ids: Collection[str]) -> None:
        """Count these rounds as ours, for the first time or again."""
        self._taken.difference_update(task_ids)

    def idle(self, now_s: float) -> list[str]:
        """Open tasks without a background round in this process."""
        background, tasks = self._local.background, self._writer.ledger.tasks
        self._taken = {task_id for task_id in self._taken if task_id in background or task_id in tasks}
        found = [task_id for task_id in tasks if task_id not in background]
        self._idle_since = {task_id: self._idle_since.get(task_id, now_s) for task_id in found}
        return found

    def orphaned(self, task_id: str, now_s: float, after_s: float) -> bool:
        """Whether a background round of ours has been idle for ``after_s``, because storage failed during it."""
        if now_s - self._idle_since.get(task_id, now_s) < after_s:
            return False
        event = decode_event(self._writer.ledger.tasks[task_id])
        return isinstance(event, TaskSubmitted) and event.background

    def _followed(self, row: Row) -> None:
        """Cancel a round that another replica has taken over or ended."""
        if row.holds(Noted):
            event = row.event()
            if isinstance(event, Noted) and event.topic == TOOK:
                self._hand_over(event.ref)
        elif row.holds(TaskEnded):
            self._hand_over(row.ref)

    async def _rebuilt(self) -> None:
        """The log was folded again without following it row by row: look up who owns our rounds now."""
        ours = [task_id for task_id in self._local.background if task_id in self._writer.ledger.tasks]
        owners = await self._writer.read(lambda _: self._writer.shared.owners(ours)) if ours else {}
        for task_id, owner in owners.items():
            if owner != self._writer.shared.writer:
                self._hand_over(task_id)

    def _is_stale(self, event: Event) -> bool:
        """Whether an event comes from a round that another replica has taken over."""
        if not self._taken:
            return False
        match event:
            case TaskEnded():
                return event.id in self._taken
            case FeedbackGiven():
                return source_of(event) is ReportSource.ROUND and self._task_of(event.decision_id) in self._taken
            case AttemptEnded():  # a model that was called twice costs twice; a person has answered once
                return event.agent in self._local.people and self._task_of(event.decision_id) in self._taken
            case Noted():
                return self._local.round_of_note(event) in self._taken
        return False

    def _staged(self, _: int, event: Event) -> None:
        """Remember which decisions belong to rounds of this process."""
        if isinstance(event, DecisionMade) and event.task_ref is not None and event.task_ref in self._local.background:
            self._local.background.remember(event.id, event.task_ref)

    def _hand_over(self, task_id: str) -> None:
        if self._local.background.cancel(task_id):
            self._taken.add(task_id)

    def _task_of(self, decision_id: str) -> str | None:
        return self._local.background.tasks_of.get(decision_id)
