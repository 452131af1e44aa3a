"""The running service without HTTP: decide, take feedback, watch the horizon. Handlers only translate."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from bot_orch.agents.base import Attempt
from bot_orch.agents.guard import Guard
from bot_orch.agents.kinds.human import HumanQueue
from bot_orch.clock import Clock, SystemClock
from bot_orch.eventlog.events import (
    AttemptEnded,
    Censored,
    Controlled,
    DecisionMade,
    TaskRecord,
    as_recorded,
    record_decision,
    record_task,
)
from bot_orch.eventlog.ids import time_ordered_id
from bot_orch.eventlog.ledger import Ledger
from bot_orch.eventlog.log import Log
from bot_orch.eventlog.reconfigure import change_to
from bot_orch.eventlog.stores.open import open_log
from bot_orch.service.build import make_guard, make_orchestrator
from bot_orch.service.config import Config
from bot_orch.service.metrics import Metrics
from bot_orch.service.routing.rules import Wish, narrow
from bot_orch.service.storage.member import Member, join
from bot_orch.service.storage.replica import make_writer
from bot_orch.service.storage.writer import Group, StorageError, Writer
from bot_orch.service.web.auth import Gate

__all__ = ["Runtime", "digest_of"]

_log = logging.getLogger("bot_orch.service")
_SWEEP_AT_ONCE = 500


def digest_of(body: bytes) -> bytes:
    """What tells a repeated request from another one under the same name."""
    return hashlib.blake2b(body, digest_size=16).digest()


class Runtime:
    """Everything a handler needs.

    Parameters
    ----------
    config
        The settings.
    log, clock, environment, grouped
        Handed in by tests and benchmarks; made from the settings otherwise.
    """

    def __init__(
        self,
        config: Config,
        *,
        log: Log | None = None,
        clock: Clock | None = None,
        environment: Mapping[str, str] | None = None,
        grouped: bool = True,
    ) -> None:
        self.config, self.metrics = config, Metrics()
        self.gate = Gate(config.tokens, environment)
        self._given_log, self._clock, self._grouped = log, clock or SystemClock(), grouped
        self.guards: dict[str, Guard] = {}
        self.busy: set[str] = set()
        self.stopping = False
        self.background: dict[str, asyncio.Task[None]] = {}
        self.queue: HumanQueue | None = None
        self._writer: Writer | None = None
        self.replica: Member | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._reference = msgspec.to_builtins(config.router.reference)
        self._saved_seq = 0

    @property
    def writer(self) -> Writer:
        """The writer; there once started."""
        if self._writer is None:
            raise RuntimeError("the service has not been started")
        return self._writer

    @property
    def ledger(self) -> Ledger:
        """What the log adds up to."""
        return self.writer.ledger

    @property
    def ready(self) -> bool:
        """Whether requests can be served."""
        return self._writer is not None and self._writer.failed is None

    async def start(self) -> None:
        """Open the log, fold it, bring it to the settings, build the agents."""
        from bot_orch.service.queue.mount import make_queue  # its handlers need this module

        log = self._given_log or open_log(self.config.database, writing=True, name="config.database")
        try:
            self._writer = make_writer(log, self._clock, grouped=self._grouped)
        except BaseException:
            log.close()
            raise
        self._writer.start()
        self._saved_seq = self.ledger.folded_from
        await self._save_long_tail()
        await self.writer.turn()
        router = self.ledger.router if self.ledger.configured else None
        change = change_to(router, make_orchestrator(self.config), self.ledger.engine)
        if change is not None:
            await self.writer.stage(self.writer.stamp(), change, "").durable()
        self.queue = make_queue(self)
        for agent in self.config.agents:
            self.guards[agent.id] = make_guard(agent, queue=self.queue, observer=self._on_attempt)
        self.replica = join(self)
        self._sweeper = asyncio.create_task(self._sweep_forever(), name="sweeper")
        _log.info("started", extra={"fields": {"seq": self.ledger.seq, "agents": list(self.ledger.router.agents)}})

    async def stop(self) -> None:
        """End calls under way, write everything down, close the log."""
        self.stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in list(self.background.values()):  # they go on after the restart
            task.cancel()
        await asyncio.gather(*self.background.values(), return_exceptions=True)
        for guard in self.guards.values():
            await guard.close()
        if self._writer is not None:
            await self._writer.close()
            if self.replica is not None:
                await self.replica.leave()
            _log.info("stopped", extra={"fields": {"seq": self.ledger.seq}})

    def decide(
        self,
        record: TaskRecord,
        wish: Wish,
        *,
        decision_id: str | None = None,
        key: str | None = None,
        digest: bytes | None = None,
        task_ref: str | None = None,
    ) -> tuple[DecisionMade, Group]:
        """Choose an agent now; the group says when the choice is on disk."""
        writer = self.writer
        if record.reference is None and self._reference is not None:
            record = msgspec.structs.replace(record, reference=self._reference)
        choice = narrow(self.config.router, self.ledger, self.guards, wish, writer.now_us())
        router = self.ledger.router
        task, eligible = as_recorded(record.task()), choice.eligible(router.agents)
        if task.reference is not None or task.profiles:
            record = record_task(task)  # as the measures read it, so that it can be written and read again
        made = router.prepare(task, eligible)  # a refused measure leaves no trace in the state
        time_us = writer.stamp()
        try:
            event = record_decision(
                decision_id or time_ordered_id(time_us),
                made,
                record,
                eligible=eligible,
                excluded=choice.excluded,
                session=wish.session,
                task_ref=task_ref,
                by=choice.by,
            )
            group = writer.stage(time_us, event, event.id, made=made, key=key, digest=digest)
        except Exception as error:  # it may have taken effect, but is not written down
            writer.distrust(error)
            raise
        self.metrics.count("bot_orch_decisions_total", agent=event.agent)
        return event, group

    def kill_switch(self, agent: str | None, by: str) -> Group:
        """Send everything to one agent, or stop doing so."""
        return self.writer.stage(self.writer.stamp(), Controlled(agent, by), "")

    def sweep(self) -> int:
        """Censor what has been silent past the horizon; how many that were."""
        now_us, horizon_us = self.writer.now_us(), round(self.config.router.horizon_s * 1e6)
        silent = _older_than(self.ledger.pending.items(), now_us - horizon_us, self.busy)
        for decision_id, made_us in silent:
            event = Censored(decision_id, (now_us - made_us) / 1e6, "unanswered")
            self.writer.stage(self.writer.stamp(), event, decision_id)
            self.metrics.count("bot_orch_feedback_total", effect="censored")
        return len(silent)

    def gauges(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """What is true at this moment."""
        writer, ledger = self.writer, self.ledger
        states = ("closed", "open", "half_open")
        circuit: list[tuple[dict[str, str], float]] = []
        for name, guard in self.guards.items():
            now = str(guard.breaker.state).replace("-", "_")
            circuit += [({"agent": name, "state": state}, float(now == state)) for state in states]
        return {
            **(self.replica.gauges() if self.replica is not None else {}),
            "bot_orch_ready": [({}, float(self.ready))],
            "bot_orch_log_events": [({}, float(ledger.seq))],
            "bot_orch_log_groups": [({}, float(writer.groups))],
            "bot_orch_pending_decisions": [({}, float(len(ledger.pending)))],
            "bot_orch_open_tasks": [({}, float(len(ledger.tasks)))],
            "bot_orch_spent_last_day_usd": [({}, ledger.spending.within(writer.now_us(), 86_400.0))],
            "bot_orch_circuit_state": circuit,
            "bot_orch_calls_in_flight": [({"agent": n}, float(g.view().in_flight)) for n, g in self.guards.items()],
        }

    def _on_attempt(self, attempt: Attempt) -> None:
        """A guard reports one try at an agent; the request carries the decision's id."""
        event = AttemptEnded(
            attempt.request_id,
            "",
            attempt.agent,
            attempt.number,
            str(attempt.ending),
            attempt.elapsed_s,
            attempt.first_byte_s,
            attempt.status,
            attempt.cost_usd,
            attempt.usage.input_tokens,
            attempt.usage.output_tokens,
        )
        self.metrics.count("bot_orch_attempts_total", agent=attempt.agent, ending=event.ending)
        if self.ready:
            self.writer.stage(self.writer.stamp(), event, attempt.request_id)

    async def _sweep_in_turn(self) -> int:
        await self.writer.turn()
        return self.sweep()

    async def _sweep_forever(self) -> None:
        pause_s = min(1.0, self.config.router.horizon_s / 4)
        while True:
            await asyncio.sleep(pause_s)
            if not self.ready:
                continue
            with suppress(StorageError):
                while await self._sweep_in_turn() == _SWEEP_AT_ONCE:
                    await asyncio.sleep(0)
            self._save_if_due()

    async def _save_long_tail(self) -> None:
        """Do not fold a long tail again at the next start, also if this life is too short to add much to it."""
        saving = self._save_if_due()
        if saving is not None:
            with suppress(StorageError):  # the log is the truth; a snapshot only saves time
                await saving.durable()

    def _save_if_due(self) -> Group | None:
        """Take a snapshot if the last one is long ago; one that fails is tried again after as many events."""
        if self.ledger.seq - self._saved_seq < self.config.limits.snapshot_every or not self.ledger.configured:
            return None
        self._saved_seq = self.ledger.seq
        return self.writer.save()


def _older_than(pending: Iterable[tuple[str, tuple[str, int]]], limit_us: int, busy: set[str]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for decision_id, (_, time_us) in pending:  # oldest first
        if time_us > limit_us or len(found) == _SWEEP_AT_ONCE:
            break
        if decision_id not in busy:
            found.append((decision_id, time_us))
    return found
