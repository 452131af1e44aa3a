"""An orchestrator with an append-only log in one file: a change takes effect when it is on disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from sqlite3 import Error as SqliteError
from typing import Any, TypeGuard

from bot_orch.clock import Clock, ServiceTime
from bot_orch.core.events import (
    Censored,
    DecisionMade,
    Event,
    FeedbackGiven,
    record_decision,
    record_evaluations,
    record_task,
)
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.warm import most_lessons
from bot_orch.encoders import AbsentEncoder, encoder_version
from bot_orch.errors import BotOrchError, InvalidInputError, UnknownDecisionError
from bot_orch.log.ledger import change_to, fold
from bot_orch.log.log import Log, Row
from bot_orch.log.stores.open import open_file
from bot_orch.types import Agent, Answer, Decision, Measure, Outcome, Task

_log = logging.getLogger("bot_orch")
_SNAPSHOT_EVERY = 10_000
_OUTCOMES = ("learned", "noted", "replaced", "audited")  # effects of feedback that report an outcome
_OWN = "agent"  # whose rewards any judge outranks, if a service opens the log


class LoggedOrchestrator:
    """Writes an event for every change, commits it (fsync), and only then returns to the caller.

    Opening an existing file folds its events: learned state and pending decisions are as they were. Agents and settings
    are those that are passed now; if they differ, the change is an event too, and agents that came or went are logged
    as a warning. A file of entirely other agents is refused. The file is a log like that of the
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
            self._check_agents(wanted)
            self._change(wanted)
        except BaseException:
            self._log.close()
            raise

    @property
    def orchestrator(self) -> Orchestrator:
        """The orchestrator; to be read, not to be changed directly."""
        return self._ledger.router

    def waiting(self, now_us: int) -> dict[str, int]:
        """Pending decisions and when they were made, oldest first."""
        ahead_us = max(0, self._ledger.time_us - now_us)  # an earlier run had a clock that was ahead
        return {decision_id: time_us - ahead_us for decision_id, time_us in self._ledger.pending.items()}

    def recent(self, most: int) -> list[tuple[Decision, Outcome | None]]:
        """Up to ``most`` recent decisions, oldest first, with their outcomes where known."""
        return recent_rounds(self._log, most)

    def decide(
        self,
        task: Task,
        eligible: Collection[str] | None = None,
        *,
        decision_id: str | None = None,
        seen: Sequence[Answer] = (),
        attempts: int = 1,
    ) -> Decision:
        """See :meth:`bot_orch.Orchestrator.decide`."""
        made = self.orchestrator.prepare(task, eligible, decision_id=decision_id, seen=seen, attempts=attempts)
        allowed = None if eligible is None else tuple(eligible)
        self._write(record_decision(made, record_task(task), eligible=allowed), made.id, made)
        return made

    def observe(self, decision_id: str, outcome: Outcome, *, audit: bool = False, default: bool = False) -> None:
        """See :meth:`bot_orch.Orchestrator.observe`."""
        effect = self.orchestrator.effect_of(decision_id, outcome, audit=audit)
        if effect is None:
            raise UnknownDecisionError(decision_id, audit=audit)
        event = FeedbackGiven.of(
            f"{effect}-{decision_id}",
            decision_id,
            effect,
            outcome=outcome,
            audit=audit,
            judge=_OWN if default else "",
            default=default,
        )
        self._write(event, decision_id, outcome if outcome.output is None else None)  # a stored measure may differ

    def observe_output(self, decision_id: str, output: Measure) -> None:
        """See :meth:`bot_orch.Orchestrator.observe_output`."""
        if decision_id not in self._ledger.pending:
            raise UnknownDecisionError(decision_id)
        event = FeedbackGiven(f"shown-{decision_id}", decision_id, "shown", output=output.to_dict())
        self._write(event, decision_id)

    def observe_all(self, decision_id: str, rewards: Mapping[str, float]) -> None:
        """Refused: a log stores one outcome per decision."""
        raise InvalidInputError("rewards", "of all agents cannot be logged", "use observe, or a Router without path")

    def learn_from(
        self,
        evaluations: Any,
        *,
        features: Any = None,
        tasks: Any = None,
        weight: Any = 1.0,
        most: float | None = None,
        answers: Any = None,
    ) -> int:
        """See :meth:`bot_orch.Orchestrator.learn_from`; the log stores the numbers."""
        given = self.orchestrator.read_evaluations(
            evaluations, features=features, tasks=tasks, weight=weight, answers=answers
        )
        self._write(record_evaluations(given, most_lessons(most, len(given.agents))), "")
        return self._ledger.applied.lessons

    def add_agent(self, agent: Agent) -> None:
        """See :meth:`bot_orch.Orchestrator.add_agent`."""
        if agent.id in self.orchestrator.agents:
            raise InvalidInputError("agent.id", f"{agent.id!r} is taken", "choose another name or remove the old agent")
        self._change(_with(self.orchestrator, [*self.orchestrator.members, agent]))

    def remove_agent(self, agent_id: str) -> None:
        """See :meth:`bot_orch.Orchestrator.remove_agent`."""
        copy = Orchestrator.from_settings(self.orchestrator.settings, self.orchestrator.members)
        copy.remove_agent(agent_id)  # the same errors
        self._change(copy)

    def close(self) -> None:
        """Write a snapshot, so that the next start is quick, and release the file."""
        if self._since_snapshot:
            self._log.save(self._ledger.snapshot())
            self._since_snapshot = 0
        self._log.close()

    def _check_agents(self, wanted: Orchestrator) -> None:
        """Refuse the log of entirely other agents; warn of agents that came or went."""
        known, given = set(self._ledger.router.agents if self._ledger.configured else wanted.agents), set(wanted.agents)
        if not known & given:
            remedy = "pass another path, or open it with its agents and change them by add_agent and remove_agent"
            raise InvalidInputError("path", f"is the log of other agents: {', '.join(sorted(known))}", remedy)
        for names, what in ((given - known, "new"), (known - given, "removed, with what was learned of them")):
            if names:
                _log.warning("agents of the log changed: %s (%s)", ", ".join(sorted(names)), what)

    def _change(self, wanted: Orchestrator) -> None:
        known = self._ledger.router if self._ledger.configured else None
        event = change_to(known, wanted, self._ledger.engine)
        if event is not None:
            self._write(event, "")
            self._attach()

    def _attach(self) -> None:
        """Attach a callable encoder to an orchestrator restored from the log."""
        if not self._ledger.configured or not callable(self._encoder):
            return
        known = self.orchestrator.settings.encoder
        if isinstance(known, AbsentEncoder) and encoder_version(known) == encoder_version(self._encoder):
            self.orchestrator.use_encoder(self._encoder)

    def _write(self, event: Event, ref: str, made: Decision | Outcome | None = None) -> None:
        """Append, apply and commit an event; after an error neither file nor memory has changed."""
        seq, time_us = self._ledger.seq + 1, self._stamp()
        row = Row.of(seq, time_us, event, ref)

        def change() -> None:
            self._log.append([row])
            self._ledger.apply(seq, time_us, event, made)

        self._attempt(change)
        self._since_snapshot += 1
        if self._since_snapshot >= _SNAPSHOT_EVERY:
            self._log.save(self._ledger.snapshot())
            self._since_snapshot = 0

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


def _with(router: Orchestrator, agents: Iterable[Agent]) -> Orchestrator:
    return Orchestrator.from_settings(router.settings, agents)


def open_logged(path: str | Path, wanted: Orchestrator, clock: Clock) -> LoggedOrchestrator:
    """Open a file, with errors that name it."""
    if not isinstance(path, str | Path) or not str(path):
        raise InvalidInputError("path", f"is {path!r}", "pass the path of a file, or None")
    if Path(path).is_dir():
        raise InvalidInputError("path", f"{path} is a directory", "pass the path of a file, new or written by a router")
    try:
        return LoggedOrchestrator(path, wanted, clock)
    except (OSError, SqliteError) as error:
        if isinstance(error, BotOrchError):
            raise
        remedy = "pass the path of a file that this process may read and write"
        raise InvalidInputError("path", f"{path} cannot be opened ({error})", remedy) from error


def recent_rounds(log: Log, most: int) -> list[tuple[Decision, Outcome | None]]:
    """Up to ``most`` recent decisions, oldest first, each with its outcome if known.

    Rows are read backwards in growing steps, so that the time does not depend on the length of the log.
    """
    last, span = log.last()[0], 4 * most
    rounds: dict[str, tuple[Decision, Outcome | None]] = {}
    while most:
        rounds = _rounds(log, max(0, last - span))
        if len(rounds) >= most or span >= last:
            break
        span *= 4
    return list(rounds.values())[-most:] if most else []


def _rounds(log: Log, after: int) -> dict[str, tuple[Decision, Outcome | None]]:
    found: dict[str, tuple[Decision, Outcome | None]] = {}
    for row in log.read(after):
        event = row.event()
        if isinstance(event, DecisionMade):
            found[event.id] = (event.decision(), None)
        elif row.ref in found and _is_outcome(event):
            found[row.ref] = (found[row.ref][0], event.outcome())
    return found


def _is_outcome(event: Event) -> TypeGuard[Censored | FeedbackGiven]:
    return isinstance(event, Censored) or (isinstance(event, FeedbackGiven) and event.effect in _OUTCOMES)
