"""The queue of people in a running service: its notes are logged before they are acknowledged."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from bot_orch.agents.base import CallFailure, CallRequest
from bot_orch.agents.endings import Ending
from bot_orch.agents.kinds.human import HumanAnswer
from bot_orch.core.events import DecisionMade, Noted
from bot_orch.log.ids import time_ordered_id
from bot_orch.recent import Newest
from bot_orch.service.problems import Problem, StorageError
from bot_orch.service.queue.tickets import REF, QueueState, Ticket, Topic, due, fold_queue
from bot_orch.service.runtime import Runtime
from bot_orch.service.storage.groups import Group

_LONGEST_NAP_S = 1.0
_RESTART_GRACE_S = 5.0


async def open_queue(runtime: Runtime) -> QueueService:
    """The queue of a service that is starting."""
    queue = QueueService(runtime)
    await queue.load()
    runtime.background.start("queue", queue.run())
    return queue


def queue_of(runtime: Runtime) -> QueueService:
    """The queue of the service; raises a problem if it has none."""
    if not isinstance(runtime.queue, QueueService):
        raise Problem(503, "no_queue", "the service has no queue")
    return runtime.queue


class QueueService:
    """The queue of a running service: the :class:`bot_orch.agents.kinds.human.HumanQueue` of its human agents.

    Parameters
    ----------
    runtime
        The service; its writer must run.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.state = QueueState()
        self._own: set[str] = set()  # tickets that a call in this process waits for
        self._resumed: set[str] = set()  # those of them from before the start
        self._changed: dict[str, asyncio.Event] = {}
        self._decisions: Newest[str, DecisionMade] = Newest(1000)
        self._wake = asyncio.Event()
        self._began_us = runtime.writer.now_us()
        self._last: Group | None = None
        runtime.writer.rebuilt.append(self._rebuild)

    async def load(self) -> None:
        """Fold the queue up to the ledger's last event."""
        rows = await self.runtime.writer.about(REF)
        seq = self.runtime.ledger.seq
        self.state, self._last = fold_queue(row for row in rows if row.seq <= seq), None

    async def enqueue(self, request: CallRequest, answer_within_s: float) -> str:
        """Open a ticket for a task. A task that goes on after a restart keeps its ticket, with claim and deadline."""
        decision = await self.decision(request.id)
        task_id = "" if decision is None else decision.task_ref or ""
        agent = "" if decision is None else decision.agent
        for ticket in self.state.tickets.values() if task_id else ():
            if (ticket.task_id, ticket.agent) == (task_id, agent) and self._left_behind(ticket):
                return self._take_over(ticket)
        time_us = self.runtime.writer.stamp()
        deadline_us = time_us + round(min(answer_within_s, request.deadline_s or answer_within_s) * 1e6)
        kind = "" if decision is None else decision.task.kind
        data = {"decision_id": request.id, "task_id": task_id, "agent": agent, "kind": kind, "text": request.plain()}
        note = Noted(Topic.OPENED, time_ordered_id(time_us), {**data, "deadline_us": deadline_us})
        self._own.add(note.ref)
        await self._stage(time_us, note).durable()
        return note.ref

    def left_behind(self, prefix: str) -> list[Ticket]:
        """Tickets from before the start, of requests whose ids begin with ``prefix``; a call waits for them again."""
        found = [t for t in self.state.tickets.values() if t.decision_id.startswith(prefix) and self._left_behind(t)]
        for ticket in found:
            self._take_over(ticket)
        return found

    def _left_behind(self, ticket: Ticket) -> bool:
        """Whether no call waits for a ticket since the start, though it is open, or answered and perhaps not used."""
        asked = ticket.live or ticket.status == "answered"
        return asked and ticket.opened_us < self._began_us and ticket.id not in self._own

    def _take_over(self, ticket: Ticket) -> str:
        if ticket.live:
            self._own.add(ticket.id)
            self._resumed.add(ticket.id)
        return ticket.id

    async def answer(self, ticket: str) -> HumanAnswer:
        """Wait until a person has answered.

        The caller limits the wait; for a ticket from before the start that limit is too long, so that it ends here.
        """
        while (current := self.state.tickets[ticket]).live:
            left_s = None
            if ticket in self._resumed:
                left_s = (current.deadline_us - self.runtime.writer.now_us()) / 1e6
                if left_s <= 0.0:
                    await self.withdraw(ticket, Ending.UNANSWERED)
                    raise CallFailure(Ending.UNANSWERED)
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.setdefault(ticket, asyncio.Event()).wait()
            self._changed.pop(ticket, None)
        if self._last is not None:
            await self._last.durable()
        given = self.state.tickets[ticket].given
        if given is None:
            raise CallFailure(Ending.CRASHED)
        return HumanAnswer(given.text, given.action == "reject", given.reason, given.by)

    async def withdraw(self, ticket: str, ending: Ending) -> None:
        """Close a ticket whose call has ended; if the service stops it stays open, for the time after the restart."""
        current = self.state.tickets.get(ticket)
        if current is None or not current.live or self.runtime.stopping:
            return
        note = Noted(Topic.WITHDRAWN, ticket, {"reason": "cancelled"})
        if ending is Ending.UNANSWERED:
            note = Noted(Topic.EXPIRED, ticket)
        with suppress(StorageError):
            self._stage(self.runtime.writer.stamp(), note)

    async def act(self, note: Noted) -> Ticket:
        """Log an action; returns the ticket once the action is durable."""
        if note.ref not in self._own:
            raise Problem(503, "not_ready", "the service has just started; try again in a moment")
        await self._stage(self.runtime.writer.stamp(), note).durable()
        return self.state.tickets[note.ref]

    def now_us(self) -> int:
        """The current time, after applying due changes."""
        now_us = self.runtime.writer.now_us()
        self.tick(now_us)
        return now_us

    async def look(self) -> int:
        """The current time, once everything a reader can see is durable."""
        now_us = self.now_us()
        if self._last is not None:
            await self._last.durable()
        return now_us

    def tick(self, now_us: int) -> None:
        """Log due changes, and withdraw tickets without a waiting caller since the last start."""
        for note in due(self.state, now_us):
            if note.ref in self._own:
                self._stage(self.runtime.writer.stamp(), note)
        if now_us - self._began_us > _RESTART_GRACE_S * 1e6:
            for ticket in [each for each in self.state.live() if each.id not in self._own]:
                self._stage(self.runtime.writer.stamp(), Noted(Topic.WITHDRAWN, ticket.id, {"reason": "restart"}))

    async def decision(self, decision_id: str) -> DecisionMade | None:
        """The decision for which a ticket was opened."""
        known = self._decisions.get(decision_id)
        if known is None:
            rows = await self.runtime.writer.settled(decision_id)
            events = (row.event() for row in rows if row.holds(DecisionMade))
            known = next((event for event in events if isinstance(event, DecisionMade)), None)
            if known is not None:
                self._decisions[decision_id] = known
        return known

    def _stage(self, time_us: int, note: Noted) -> Group:
        group = self.runtime.writer.stage(time_us, note, REF)
        self._last = group
        before = self.state.tickets[note.ref].claim if note.ref in self.state.tickets else 0
        self.state.apply(time_us, note)
        ticket = self.state.tickets[note.ref]
        if not ticket.live:
            self._own.discard(note.ref)
            self._resumed.discard(note.ref)
        event, metrics = note.topic.removeprefix("queue."), self.runtime.metrics
        metrics.count("bot_orch_queue_events_total", event=event)
        if note.topic == Topic.ANSWERED or (before, ticket.claim) == (0, 1):
            metrics.observe("bot_orch_queue_seconds", (time_us - ticket.opened_us) / 1e6, until=event)
        self._notify(note.ref)
        self._wake.set()
        return group

    def _notify(self, ticket_id: str) -> None:
        event = self._changed.get(ticket_id)
        if event is not None:
            event.set()

    async def _rebuild(self) -> None:
        """Rebuild the queue after the writer has rolled back to the durable state."""
        await self.load()
        for ticket_id in list(self._changed):
            self._notify(ticket_id)

    async def run(self) -> None:
        """Watch leases until the service stops its background tasks."""
        while True:
            await self._nap()
            if self.runtime.ready and self._something_is_due():
                with suppress(StorageError):
                    self.tick(self.runtime.writer.now_us())

    def _something_is_due(self) -> bool:
        """Whether :meth:`tick` would log anything."""
        due_us = self.state.next_lapse_us()
        strangers = any(ticket.id not in self._own for ticket in self.state.live())
        return strangers or (due_us is not None and due_us <= self.runtime.writer.now_us())

    async def _nap(self) -> None:
        due_us = self.state.next_lapse_us()
        left_s = _LONGEST_NAP_S if due_us is None else (due_us - self.runtime.writer.now_us()) / 1e6
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(left_s, 0.005), _LONGEST_NAP_S)):
                await self._wake.wait()
