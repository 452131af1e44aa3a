"""A router's orchestrator behind an append-only log in one file: a change takes effect when it is on disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from bot_orch.clock import Clock, ServiceTime
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.warm import most_lessons
from bot_orch.encoders import AbsentEncoder, encoder_version
from bot_orch.errors import BotOrchError, InvalidInputError, UnknownDecisionError
from bot_orch.log.events import (
    Event,
    FeedbackGiven,
    encode_event,
    kind_of,
    record_decision,
    record_evaluations,
    record_task,
)
from bot_orch.log.ledger import fold
from bot_orch.log.log import Row, Snapshot
from bot_orch.log.reconfigure import change_to
from bot_orch.log.stores.open import open_file
from bot_orch.router.recall import recent_rounds
from bot_orch.types import Agent, Decision, Measure, Outcome, Task

__all__ = ["Journal"]

_SNAPSHOT_EVERY = 10_000
_OWN = "agent"  # whose rewards any judge outranks, if a service opens the log


class Journal:
    """Writes an event for every change, commits it (fsync), and only then lets the caller go on.

    Opening an existing file folds its events: learned state and pending decisions are as they were. Agents and settings
    are those that are passed now; if they differ, the change is an event too. The file is a log like that of the
    service: ``bot-orch replay`` and ``bot-orch evaluate`` read it. It has one writer at a time.

    Parameters
    ----------
    path
        The file; created if missing.
    wanted
        Agents and settings, as a new orchestrator.
    clock
        Source of the events' times.
    """

    def __init__(self, path: str | Path, wanted: Orchestrator, clock: Clock) -> None:
        self._encoder = wanted.settings.encoder  # the log keeps its version alone
        self._log = open_file(path, writing=True)
        try:
            self._ledger = fold(self._log)
            self._stamp = ServiceTime(clock, self._ledger.time_us)
            self._since_snapshot = self._ledger.seq - self._ledger.folded_from
            self._attach()
            self._change(wanted)
        except BaseException:
            self._log.close()
            raise

    @property
    def orchestrator(self) -> Orchestrator:
        """See :class:`~bot_orch.router.book.Book`."""
        return self._ledger.router

    def waiting(self, now_us: int) -> dict[str, int]:
        """See :class:`~bot_orch.router.book.Book`."""
        ahead_us = max(0, self._ledger.time_us - now_us)  # an earlier run had a clock that was ahead
        return {decision_id: time_us - ahead_us for decision_id, (_, time_us) in self._ledger.pending.items()}

    def recent(self, most: int) -> list[tuple[Decision, Outcome | None]]:
        """See :class:`~bot_orch.router.book.Book`."""
        return recent_rounds(self._log, most)

    def decide(self, task: Task, eligible: Collection[str] | None) -> Decision:
        """See :class:`~bot_orch.router.book.Book`."""
        made = self.orchestrator.prepare(task, eligible)
        allowed = None if eligible is None else tuple(eligible)
        self._write(record_decision(made.id, made, record_task(task), eligible=allowed), made.id, made)
        return made

    def observe(self, decision_id: str, outcome: Outcome, *, audit: bool = False, default: bool = False) -> None:
        """See :class:`~bot_orch.router.book.Book`."""
        effect = self._effect(decision_id, outcome, audit=audit)
        output = None if outcome.output is None else outcome.output.to_dict()
        event = FeedbackGiven(
            f"{effect}-{decision_id}",
            decision_id,
            effect,
            outcome.reward,
            outcome.elapsed_s,
            bool(outcome.event),
            outcome.reason,
            output,
            outcome.cost_usd or 0.0,
            audit=audit,
            priced=outcome.cost_usd is not None,
            judge=_OWN if default else "",
            default=default,
        )
        self._write(event, decision_id)

    def observe_output(self, decision_id: str, output: Measure) -> None:
        """See :class:`~bot_orch.router.book.Book`."""
        if decision_id not in self._ledger.pending:
            raise UnknownDecisionError(decision_id)
        event = FeedbackGiven(f"shown-{decision_id}", decision_id, "shown", output=output.to_dict())
        self._write(event, decision_id)

    def _effect(self, decision_id: str, outcome: Outcome, *, audit: bool) -> str:
        """How an outcome counts: see :class:`~bot_orch.log.events.FeedbackGiven`."""
        first = self._ledger.audits.get(decision_id)
        if first is not None and self.orchestrator.verdicts[first].audit != audit:
            return "audited"
        lesson = self.orchestrator.meaning(outcome) in ("reward", "zero")
        if decision_id in self._ledger.pending:
            return "learned" if lesson else "noted"
        if lesson and (decision_id in self._ledger.silent or (decision_id in self._ledger.judged and not audit)):
            return "replaced"
        raise UnknownDecisionError(decision_id, audit=audit)

    def observe_all(self, decision_id: str, rewards: Mapping[str, float]) -> None:
        """A log holds one outcome per decision."""
        raise InvalidInputError("rewards", "of all agents cannot be logged", "use observe, or a Router without path")

    def learn_from(
        self, evaluations: Any, *, features: Any = None, tasks: Any = None, weight: Any = 1.0, most: float | None = None
    ) -> int:
        """See :class:`~bot_orch.router.book.Book`; the log keeps the numbers."""
        given = self.orchestrator.read_evaluations(evaluations, features=features, tasks=tasks, weight=weight)
        self._write(record_evaluations(given, most_lessons(most, len(given.agents))), "")
        return self._ledger.lessons

    def add_agent(self, agent: Agent) -> None:
        """See :class:`~bot_orch.router.book.Book`."""
        if agent.id in self.orchestrator.agents:
            raise InvalidInputError("agent.id", f"{agent.id!r} is taken", "choose another name or remove the old agent")
        self._change(_with(self.orchestrator, [*self.orchestrator.members, agent]))

    def remove_agent(self, agent_id: str) -> None:
        """See :class:`~bot_orch.router.book.Book`."""
        copy = Orchestrator.from_settings(self.orchestrator.settings, self.orchestrator.members)
        copy.remove_agent(agent_id)  # the same errors
        self._change(copy)

    def close(self) -> None:
        """Write a snapshot, so that the next start is quick, and release the file."""
        if self._since_snapshot:
            self._attempt(lambda: self._log.append([], self._ledger.snapshot(self._log)))
            self._since_snapshot = 0
        self._log.close()

    def _change(self, wanted: Orchestrator) -> None:
        known = self._ledger.router if self._ledger.configured else None
        event = change_to(known, wanted, self._ledger.engine)
        if event is not None:
            self._write(event, "")
            self._attach()

    def _attach(self) -> None:
        """Give a callable encoder back to an orchestrator that was made of the log."""
        if not self._ledger.configured or not callable(self._encoder):
            return
        known = self.orchestrator.settings.encoder
        if isinstance(known, AbsentEncoder) and encoder_version(known) == encoder_version(self._encoder):
            self.orchestrator.use_encoder(self._encoder)

    def _write(self, event: Event, ref: str, made: Decision | None = None) -> None:
        """Append and apply an event, then commit; after an error nothing has changed, in the file or in memory."""
        seq, time_us = self._ledger.seq + 1, self._stamp()
        row = Row(seq, time_us, kind_of(event), ref, encode_event(event, ref))

        def change() -> None:
            self._log.append([row], self._due_snapshot())
            self._ledger.apply(seq, time_us, event, made)

        self._attempt(change)
        self._since_snapshot += 1

    def _attempt(self, change: Callable[[], None]) -> None:
        before = self._ledger.seq
        try:
            change()
            self._log.commit()
        except BaseException as error:
            self._log.rollback()
            refused = isinstance(error, BotOrchError) and self._ledger.seq == before
            if not refused or self._log.last()[0] != before:  # the state may be ahead of the file, or half changed
                self._ledger = fold(self._log)
                self._attach()
            raise

    def _due_snapshot(self) -> Snapshot | None:
        """The state before this event, once in ten thousand events."""
        if self._since_snapshot < _SNAPSHOT_EVERY:
            return None
        self._since_snapshot = 0
        return self._ledger.snapshot(self._log)


def _with(router: Orchestrator, agents: Iterable[Agent]) -> Orchestrator:
    return Orchestrator.from_settings(router.settings, agents)
