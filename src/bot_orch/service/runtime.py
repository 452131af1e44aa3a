"""The running service without HTTP: the log, the guarded agents, the horizon, snapshots and metrics."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Container, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from bot_orch.agents.base import Attempt
from bot_orch.agents.guard import Guard
from bot_orch.clock import Clock, SystemClock
from bot_orch.core.events import AttemptEnded, Censored, Controlled, Event, FeedbackGiven, Noted
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.log.ledger import Ledger, change_to
from bot_orch.log.log import Log
from bot_orch.log.rollout import CONFIG_REF, CONFIG_REVISION
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.recent import Newest
from bot_orch.service.build import called_alike, make_guard, make_orchestrator, warm_up
from bot_orch.service.cluster.forwarding import Forwarder, moved
from bot_orch.service.config import Config, TokenLimitsConfig
from bot_orch.service.judges.registry import NO_SIGNAL, SIGNALS, lacks_signal
from bot_orch.service.metrics import EventMetrics, Metrics
from bot_orch.service.objective import baseline_of
from bot_orch.service.operations.tracing import Traces, note_attempt, traces_wanted
from bot_orch.service.operations.usage import TokenUsage
from bot_orch.service.problems import Problem, StorageError
from bot_orch.service.repeats import Repeats
from bot_orch.service.storage.groups import Group
from bot_orch.service.storage.retention import Retention, retention_of
from bot_orch.service.storage.writer import Writer
from bot_orch.service.web.access import AccessLog
from bot_orch.service.work import BackgroundTasks, DecisionsInFlight, ShadowAllowance

if TYPE_CHECKING:
    from bot_orch.service.judging.judge_runner import JudgeRunner
    from bot_orch.service.queue.service import QueueService

_log = logging.getLogger("bot_orch.service")
_LOADED_S, _LOOK_S = 5.0, 0.02
_SWEEP_AT_ONCE = 500
_MOST_MADE = 100_000
_MOST_PENDING = 20_000  # decisions without an outcome; each takes some 5 kB with a text


class Reloaded(NamedTuple):
    """Settings that were changed in a running service, and those that only a restart changes."""

    changed: list[str]
    after_restart: list[str]


class StartCancelledError(BotOrchError):
    """The service was stopped before it had folded its log."""


def digest_of(body: bytes | bytearray) -> bytes:
    """A digest that distinguishes repeated requests from different ones with the same key."""
    return hashlib.blake2b(body, digest_size=16).digest()


class Runtime:
    """The running service: log, state, agents and background work.

    Parameters
    ----------
    config
        The settings.
    open_queue
        Opens the queue of people of a runtime that is starting; human agents need one.
    log, clock, grouped, most_pending
        Handed in by tests and benchmarks; made from the settings otherwise.
    """

    def __init__(
        self,
        config: Config,
        *,
        open_queue: Callable[[Runtime], Awaitable[QueueService]] | None = None,
        log: Log | None = None,
        clock: Clock | None = None,
        grouped: bool = True,
        most_pending: int = _MOST_PENDING,
    ) -> None:
        self.most_pending = most_pending
        self.config, self.metrics, self._open_queue = config, Metrics(), open_queue
        self.events = EventMetrics(self.metrics, lambda: self.ledger.router.reward.range)
        self._given_log, self._clock, self._grouped = log, clock or SystemClock(), grouped
        self.guards: dict[str, Guard] = {}
        self.in_flight, self.background = DecisionsInFlight(), BackgroundTasks()
        self.serving = 0  # requests that are being answered
        self.judges: JudgeRunner | None = None
        self.mute: set[str] = set()  # agents that refuse to tell probabilities of tokens
        self.usage = TokenUsage(self.on_limited)
        self.access: AccessLog | None = None
        self.traces: Traces | None = None
        self.repeats = Repeats()
        self.made: Newest[tuple[str, str], str] = Newest(_MOST_MADE)  # agents by token and id of a call or response
        self.stopping = self.loaded = self.closed = False
        self.resumed = False  # whether rounds that a restart continues are in flight again
        self.reload: Callable[[], Awaitable[Reloaded]] | None = None  # of a service with a file
        self._log: Log | None = None
        self._loading: asyncio.Future[None] | None = None
        self._folded = self._to_fold = 0
        self.queue: QueueService | None = None
        self._writer: Writer | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self.retention: Retention | None = None
        self.reference = msgspec.to_builtins(config.router.reference)
        self.forwarder: Forwarder | None = None  # to the other processes of the service, if there are any
        self.away = False  # whether another process serves the router: it was not opened here, or is being left
        self.holds: Callable[[], bool] | None = None  # whether this process still owns the router
        self.heir: Callable[[Event], None] | None = None  # takes what ends after the router was handed over
        self._canaries: dict[str, float] = {}
        self.shadow_allowance = ShadowAllowance()
        self.baseline: str | None = None  # the agent that dollars are compared with

    @property
    def clock(self) -> Clock:
        """The clock of the service."""
        return self._clock

    @property
    def writer(self) -> Writer:
        """The writer of the log; raises before :meth:`start`."""
        if self._writer is None:
            raise RuntimeError("the service has not been started")
        return self._writer

    @property
    def ledger(self) -> Ledger:
        """The state: the fold of the log."""
        return self.writer.ledger

    @property
    def caps(self) -> dict[str, float]:
        """Largest propensities of agents on trial, as far as the router has them."""
        agents = self.ledger.router.agents if self._canaries else ()
        return {name: cap for name, cap in self._canaries.items() if name in agents}

    @property
    def ready(self) -> bool:
        """Whether the log is open and writable."""
        writes = self._writer is not None and self._writer.failed is None and self.heir is None
        return self.loaded and writes and self._owned

    @property
    def _owned(self) -> bool:
        return self.holds is None or self.holds()

    def check_loaded(self) -> None:
        """Raise a :class:`Problem` with the progress while the log is being folded."""
        if not self.loaded:
            message = f"not ready: {self._folded} of {self._to_fold} events folded"
            if self._folded >= self._to_fold:
                message = f"not ready: the log of {self._to_fold} events is read, the service starts"
            details = {"folded": self._folded, "total": self._to_fold}
            raise Problem(503, "not_ready", message, headers={"retry-after": "1"}, details=details)
        if not self._owned:
            raise moved()

    async def loaded_soon(self) -> None:
        """Wait for the log to be folded, for a while: a router that was moved is back in a moment."""
        if self.loaded or self.forwarder is None:
            return
        until = asyncio.get_running_loop().time() + _LOADED_S
        while not (self.loaded or self.stopping) and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(_LOOK_S)

    async def start(self) -> None:
        """Open and load the log."""
        self.open()
        await self.load()

    def open_reports(self) -> None:
        """Open traces and the access log."""
        if self.traces is None and traces_wanted():
            self.traces = Traces()  # first: it may lack its extra
        if self.access is None and self.config.access_log is not None:
            self.access = AccessLog(self.config.access_log)

    def open(self) -> None:
        """Open the log as its only writer."""
        self.open_reports()
        try:
            self._log = self._given_log or open_log(self.config.database, writing=True, name="config.database")
        except BaseException:
            if self.access is not None:
                self.access.close()
                self.access = None
            raise

    async def load(self) -> None:
        """Fold the log in a thread, log a change of settings, build the agents."""
        self._loading = asyncio.get_running_loop().create_future()
        try:
            await self._load()
        finally:
            self._loading.set_result(None)

    async def _load(self) -> None:
        if self._log is None or self.stopping:
            raise StartCancelledError("the service was stopped before it folded the log")
        job = partial(Writer, self._log, self._clock, grouped=self._grouped, progress=self._progress)
        self._writer = await asyncio.to_thread(job)
        self._writer.start()
        await self._save_long_tail()
        self.check_revision(self.config)
        group = self.log_settings(self.config, make_orchestrator(self.config))
        if group is not None:
            await group.durable()
        self.writer.rebuilt.append(lambda: self.background.start("settings", self._log_settings_again()))
        self.usage.track(self.config.tokens)
        await asyncio.to_thread(self.usage.recall, self._log, self.writer.now_us())
        self.writer.staged += [self.usage.take, self.events.take]
        await asyncio.to_thread(warm_up, self.config)
        self.queue = None if self._open_queue is None else await self._open_queue(self)
        self.adopt(self.config, self.guards_for(self.config))
        self._sweeper = asyncio.create_task(sweep_forever(self), name="sweeper")
        self.retention = retention_of(self.writer, self.config, self.metrics.count)
        if self.retention is not None:
            self.background.start("retention", self.retention.run())
        self.loaded = True
        if lacks_signal(self.config):
            _log.warning(NO_SIGNAL, extra={"fields": {"detail": SIGNALS}})
        _log.info("started", extra={"fields": {"seq": self.ledger.seq, "agents": list(self.ledger.router.agents)}})

    def log_settings(self, config: Config, wanted: Orchestrator) -> Group | None:
        """Log a change of the router and the file's revision, unless the log already contains them."""
        router = self.ledger.router if self.ledger.configured else None
        change = change_to(router, wanted, self.ledger.engine)
        group = None if change is None else self.writer.stage(self.writer.stamp(), change, "")
        if config.revision > self.ledger.rollout.revision:
            note = Noted(CONFIG_REVISION, CONFIG_REF, {"revision": config.revision})
            group = self.writer.stage(self.writer.stamp(), note, CONFIG_REF)
        return group

    def check_revision(self, config: Config) -> None:
        """Refuse a file that is older than one whose settings the log has."""
        newest = self.ledger.rollout.revision
        if config.revision < newest:
            problem = f"is {config.revision}, and the log has the settings of revision {newest}"
            raise InvalidInputError("config.revision", problem, f"use the newer file, or write revision: {newest + 1}")

    async def _log_settings_again(self) -> None:
        """Log the settings again after the log was reloaded: its end may be lost, or hold a change that was undone."""
        while self.writer.failed is not None:
            await asyncio.sleep(_LOOK_S)
        self.log_settings(self.config, make_orchestrator(self.config))

    def guards_for(self, config: Config) -> dict[str, Guard]:
        """The guarded agents of a configuration; agents with unchanged settings keep their guards."""
        known = {agent.id: agent for agent in self.config.agents if agent.id in self.guards}
        return {
            agent.id: self.guards[agent.id]
            if agent.id in known and called_alike(known[agent.id], agent)
            else make_guard(agent, queue=self.queue, observer=self.on_attempt)
            for agent in config.agents
        }

    def adopt(self, config: Config, guards: dict[str, Guard]) -> dict[str, Guard]:
        """Replace settings and guards; returns the previous guards."""
        before = dict(self.guards)
        self.usage.track(config.tokens)
        if self.traces is not None:
            self.traces.know(config.agents)
        self.config, self.reference = config, msgspec.to_builtins(config.router.reference)
        self.guards.clear()
        self.guards.update(guards)
        people = {each.id for each in config.agents if each.kind == "human"}
        prices = {name: guard.price for name, guard in guards.items() if name not in people}
        self.baseline = baseline_of(config.router, prices)
        self.mute.clear()
        self._canaries = {
            each.id: each.canary for each in config.agents if each.canary is not None and each.canary < 1.0
        }
        return before

    async def hand_over(self, heir: Callable[[Event], None]) -> None:
        """Close the log for the next owner; calls in progress continue, and ``heir`` receives their results."""
        self.heir, self.stopping = heir, True
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self.background.stop()
        await self.writer.close()

    def record(self, event: AttemptEnded | FeedbackGiven) -> None:
        """Log the result of a call, or pass it to the next owner of the router."""
        if self.heir is not None:
            self.heir(event)
        elif self.ready:
            self.writer.stage(self.writer.stamp(), event, event.decision_id)

    def inherit(self, event: AttemptEnded | FeedbackGiven) -> None:
        """Log the result of a call that was in progress when the previous owner handed the router over."""
        if isinstance(event, AttemptEnded) or event.decision_id in self.ledger.pending:
            self.record(event)

    async def end_calls(self) -> None:
        """End the calls of agents, for a stop: rounds in the background continue after the restart."""
        self.stopping = True
        await self.background.stop()
        for guard in self.guards.values():
            await guard.close()

    async def stop(self) -> None:
        """Cancel background work, close the agents, commit everything, close the log."""
        self.stopping = True
        if not self.loaded and isinstance(self._log, PostgresLog):
            self._log.abort()  # do not wait for a server that does not answer
        if self._loading is not None:
            await self._loading
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self.end_calls()
        if self._writer is not None:
            if self.heir is None:
                await self._writer.close()
        elif self._log is not None:
            self._log.close()
        if self._writer is not None:
            _log.info("stopped", extra={"fields": {"seq": self.ledger.seq}})
        if self.traces is not None:
            await asyncio.to_thread(self.traces.close)
        if self.access is not None:
            self.access.close()
            self.access = None
        self.closed = True

    def _progress(self, done: int, total: int) -> None:
        """Note how far the fold is; it runs in a thread."""
        if self.stopping:
            raise StartCancelledError("the service was stopped while it folded the log")
        self._folded, self._to_fold = done, total

    @staticmethod
    def ref_of_session(session: str) -> str:
        """The ``ref`` of the notes that name the decisions of a session."""
        return f"session:{session}"

    def kill_switch(self, agent: str | None, by: str) -> Group:
        """Send all tasks to one agent; ``None`` switches this off."""
        return self.writer.stage(self.writer.stamp(), Controlled(agent, by), "")

    def admit(self, token: str, limits: TokenLimitsConfig | None) -> dict[str, str]:
        """Count a request against the limits of its token; returns headers, or raises if one is exceeded."""
        if limits is None:
            return {}
        now_us = self.writer.now_us()
        return self.usage.admit(token, limits, now_us)

    def on_limited(self, token: str, limit: str) -> None:
        """Count a request that was refused because of a limit of its token."""
        self.metrics.count("bot_orch_limited_requests_total", token=token, limit=limit)

    def on_attempt(self, attempt: Attempt) -> None:
        """Log one attempt at an agent; the request's id is the decision's id."""
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
            attempt.usage.estimated,
        )
        self.metrics.attempt(attempt)
        note_attempt(attempt)
        self.record(event)

    async def _save_long_tail(self) -> None:
        """Save a snapshot at the start if the tail is long, as this process may crash before the next one is due."""
        saving = self.save_if_due()
        if saving is not None:
            with suppress(StorageError):  # a snapshot only saves time at the next start
                await saving

    def save_if_due(self) -> asyncio.Task[None] | None:
        """Save a snapshot if one is due; after a failure it is retried after as many events."""
        limits = self.config.limits
        due = self.writer.snapshot_due(every=limits.snapshot_every, tail_s=limits.snapshot_tail_s)
        return self.writer.save() if due else None


async def sweep_forever(runtime: Runtime) -> None:
    """Censor decisions that pass the horizon or are too many, and save snapshots when due."""
    while True:
        await asyncio.sleep(min(1.0, runtime.config.router.horizon_s / 4))
        if not runtime.ready:
            continue
        with suppress(StorageError):
            while sweep(runtime) == _SWEEP_AT_ONCE:
                await asyncio.sleep(0)
        runtime.save_if_due()


def sweep(runtime: Runtime) -> int:
    """End decisions without an outcome at the horizon, or the oldest ones if too many wait, as silence; how many.

    Each is an event in the log, from which replay derives the rest.
    """
    now_us = runtime.writer.now_us()
    silent, reason = _silent(runtime, now_us), "horizon"
    if not silent:
        silent, reason = _too_many(runtime, now_us), "too many wait"
    for decision_id, made_us in silent:
        event = Censored(decision_id, (now_us - made_us) / 1e6, reason)
        runtime.writer.stage(runtime.writer.stamp(), event, decision_id)
        runtime.metrics.count("bot_orch_feedback_total", effect="censored")
    return len(silent)


def _silent(runtime: Runtime, now_us: int) -> list[tuple[str, int]]:
    """Decisions without an outcome at the horizon, with their times."""
    horizon_us = round(runtime.config.router.horizon_s * 1e6)
    return _older_than(runtime.writer.ledger.pending.items(), now_us - horizon_us, runtime.in_flight)


def _too_many(runtime: Runtime, now_us: int) -> list[tuple[str, int]]:
    """The oldest decisions beyond those that may wait for an outcome; agents that still work are not counted."""
    if not runtime.resumed:
        return []
    pending, in_flight = runtime.writer.ledger.pending, runtime.in_flight
    excess = len(pending) - sum(each in pending for each in in_flight) - runtime.most_pending
    return _older_than(pending.items(), now_us, in_flight, most=excess)


def _older_than(
    pending: Iterable[tuple[str, int]], limit_us: int, in_flight: Container[str], *, most: int = _SWEEP_AT_ONCE
) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for decision_id, time_us in pending:  # oldest first
        if time_us > limit_us or len(found) >= min(most, _SWEEP_AT_ONCE):
            break
        if decision_id not in in_flight:
            found.append((decision_id, time_us))
    return found
