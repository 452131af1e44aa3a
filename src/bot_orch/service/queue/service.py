"""The queue of people in a running service: its notes are logged before they are acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from bot_orch.agents.base import CallFailure, CallRequest
from bot_orch.agents.endings import Ending
from bot_orch.agents.kinds.human import HumanAnswer
from bot_orch.core.events import DecisionMade, Noted
from bot_orch.log.ids import time_ordered_id
from bot_orch.service.problems import Problem, StorageError
from bot_orch.service.queue.rules import QueueError, QueueSettings, due
from bot_orch.service.queue.state import REF, QueueState, Ticket, Topic, WithdrawReason, fold_queue
from bot_orch.service.runtime import Runtime
from bot_orch.service.storage.groups import Group

_log = logging.getLogger("bot_orch.queue")
_LONGEST_NAP_S = 1.0
_RESTART_GRACE_S = 5.0
_MOST_DRAFTS = 5
_LONGEST_DRAFT = 20_000


async def open_queue(runtime: Runtime) -> QueueService:
    """The queue of a service that is starting."""
    configured = runtime.config.queue
    queue = QueueService(runtime, QueueSettings(configured.lease_s, configured.undo_s, configured.blind))
    await queue.load()
    queue.start()
    return queue


class QueueService:
    """The queue of a running service: the :class:`bot_orch.agents.kinds.human.HumanQueue` of its human agents.

    Parameters
    ----------
    runtime
        The service; its writer must run.
    settings
        Leases, undo window, blind mode.
    """

    def __init__(self, runtime: Runtime, settings: QueueSettings) -> None:
        self.runtime, self.settings = runtime, settings
        self.state = QueueState()
        self._own: set[str] = set()  # tickets that a call in this process waits for
        self._adopted: dict[str, Ending] = {}  # those of them from before the start, and how a late one ends
        self._changed: dict[str, asyncio.Event] = {}
        self._decisions: dict[str, DecisionMade] = {}
        self._drafting: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._began_us = runtime.writer.now_us()
        self._last: Group | None = None
        runtime.writer.rebuilt.append(self._rebuild)

    async def load(self) -> None:
        """Fold the queue up to the ledger's last event."""
        rows = await self.runtime.writer.about(REF)
        seq = self.runtime.ledger.seq
        self.state, self._last = fold_queue(row for row in rows if row.seq <= seq), None

    def start(self) -> None:
        """Start watching leases and undo windows, until the service stops its background tasks."""
        self.runtime.background.start("queue", self._run())

    async def enqueue(self, request: CallRequest, answer_within_s: float) -> str:
        """Open a ticket for a task. After a restart the same task adopts the ticket it had, with its deadline."""
        decision = await self._decision(request.id)
        writer = self.runtime.writer
        time_us = writer.stamp()
        within_s = min(answer_within_s, request.deadline_s or answer_within_s)
        deadline_us = time_us + round(within_s * 1e6)
        task_id = "" if decision is None else decision.task_ref or ""
        old = next(self._left_behind(task_id), None) if task_id else None
        if old is not None:
            if _goes_on(old, request.id, "" if decision is None else decision.agent):
                deadline_us = old.deadline_us
                self._adopted[old.id] = Ending.UNANSWERED if within_s == answer_within_s else Ending.CALLER_DEADLINE
            data: dict[str, Any] = {"decision_id": request.id, "deadline_us": deadline_us}
            note = Noted(Topic.ADOPTED, old.id, data)
        else:
            data = {
                "decision_id": request.id,
                "task_id": task_id,
                "agent": "" if decision is None else decision.agent,
                "kind": "" if decision is None else decision.task.kind,
                "text": request.plain(),
                "deadline_us": deadline_us,
                "blind": bool(request.params.get("blind", self.settings.blind)),
                "drafts": list(_given_drafts(request)),
            }
            note = Noted(Topic.OPENED, time_ordered_id(time_us), data)
        self._own.add(note.ref)
        await self._stage(time_us, note).durable()
        if deadline_us > time_us:
            self._ask_for_drafts(note.ref, request, () if old is None else {draft.agent for draft in old.drafts})
        return note.ref

    async def answer(self, ticket: str) -> HumanAnswer:
        """Wait until a person has answered and the undo window is over.

        The caller limits the wait; for a ticket from before the start that limit is too long, so that it ends here.
        """
        while (current := self.state.tickets[ticket]).status != "done":
            late, left_s = self._adopted.get(ticket), None
            if late is not None and current.status != "answered":  # else it is sealed in a moment
                left_s = (current.deadline_us - self.runtime.writer.now_us()) / 1e6
                if left_s <= 0.0:
                    await self.withdraw(ticket, late)
                    raise CallFailure(late)
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.setdefault(ticket, asyncio.Event()).wait()
            self._changed.pop(ticket, None)
        if self._last is not None:
            await self._last.durable()
        given = self.state.tickets[ticket].given
        if given is None:
            raise CallFailure(Ending.CRASHED)
        return HumanAnswer(given.text, None, given.action == "reject", given.reason, given.by)

    async def withdraw(self, ticket: str, ending: Ending) -> None:
        """Close a ticket whose call has ended; if the service stops it stays open, to be adopted after the restart."""
        current = self.state.tickets.get(ticket)
        if current is None or not current.live or self.runtime.stopping:
            return
        note = Noted(Topic.WITHDRAWN, ticket, {"reason": WithdrawReason.CANCELLED})
        if ending is Ending.UNANSWERED:
            note = Noted(Topic.EXPIRED, ticket)
        with suppress(StorageError):
            self._stage(self.runtime.writer.stamp(), note)

    async def act(self, note: Noted) -> Ticket:
        """Log an action; returns the ticket once the action is durable."""
        if note.ref not in self._own:
            raise Problem(503, "not_ready", "the service has just started; try again in a moment")
        group = self._stage(self.runtime.writer.stamp(), note)
        await group.durable()
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
        started = now_us - self._began_us > _RESTART_GRACE_S * 1e6
        for ticket in self.state.live():
            if ticket.id not in self._own and started:
                note = Noted(Topic.WITHDRAWN, ticket.id, {"reason": WithdrawReason.RESTART})
                self._stage(self.runtime.writer.stamp(), note)

    def adopt(self, prefix: str) -> list[tuple[str, str, float]]:
        """Tickets of requests whose ids begin with ``prefix`` that no call waits for: live, or done before a stop."""
        now_us, found = self.runtime.writer.now_us(), []
        for ticket in self.state.tickets.values():
            known = ticket.decision_id.startswith(prefix) and ticket.id not in self._own
            if known and (ticket.live or ticket.status == "done"):
                if ticket.live:
                    self._own.add(ticket.id)
                found.append((ticket.id, ticket.decision_id, max((ticket.deadline_us - now_us) / 1e6, 1.0)))
        return found

    async def why(self, ticket: Ticket) -> DecisionMade | None:
        """The decision for which the ticket was opened."""
        return await self._decision(ticket.decision_id)

    async def add_draft(self, ticket_id: str, agent: str, text: str) -> Ticket:
        """Add an answer proposed by another agent."""
        ticket = self.state.tickets.get(ticket_id)
        if ticket is None or ticket.status not in ("open", "claimed") or len(ticket.drafts) >= _MOST_DRAFTS:
            raise QueueError("stale", "it takes no more drafts")
        return await self.act(Noted(Topic.DRAFTED, ticket_id, {"agent": agent, "text": text[:_LONGEST_DRAFT]}))

    def _stage(self, time_us: int, note: Noted) -> Group:
        group = self.runtime.writer.stage(time_us, note, REF)
        self._last = group
        self.state.apply(time_us, note)
        if not self.state.tickets[note.ref].live:
            self._own.discard(note.ref)
            self._adopted.pop(note.ref, None)
        self._count(time_us, note)
        self._notify(note.ref)
        self._wake.set()
        return group

    def _count(self, time_us: int, note: Noted) -> None:
        topic, ticket, metrics = Topic(note.topic), self.state.tickets[note.ref], self.runtime.metrics
        metrics.count("bot_orch_queue_events_total", event=topic.short)
        first = topic is Topic.CLAIMED and ticket.claim == 1
        if first or topic is Topic.ANSWERED:
            metrics.observe("bot_orch_queue_seconds", (time_us - ticket.opened_us) / 1e6, until=topic.short)

    def _notify(self, ticket_id: str) -> None:
        event = self._changed.get(ticket_id)
        if event is not None:
            event.set()

    async def _rebuild(self) -> None:
        """Rebuild the queue after the writer has rolled back to the durable state."""
        await self.load()
        for ticket_id in list(self._changed):
            self._notify(ticket_id)

    def _left_behind(self, task_id: str) -> Iterator[Ticket]:
        """Tickets of a task that no call has waited for since the last start."""
        for ticket in self.state.tickets.values():
            abandoned = ticket.status == "withdrawn" or (ticket.live and ticket.id not in self._own)
            if ticket.task_id == task_id and abandoned:
                yield ticket

    async def _decision(self, decision_id: str) -> DecisionMade | None:
        known = self._decisions.get(decision_id)
        if known is None:
            rows = await self.runtime.writer.settled(decision_id)
            events = (row.event() for row in rows if row.holds(DecisionMade))
            known = next((event for event in events if isinstance(event, DecisionMade)), None)
            if known is not None:
                self._decisions[decision_id] = known
                if len(self._decisions) > 1000:
                    del self._decisions[next(iter(self._decisions))]
        return known

    def _ask_for_drafts(self, ticket_id: str, request: CallRequest, known: Collection[str]) -> None:
        """Call the agents named by the caller for drafts; every call is a logged attempt with its price."""
        names = request.params.get("draft_agents", ())
        people = {agent.id for agent in self.runtime.config.agents if agent.kind == "human"}
        for name in list(names)[:_MOST_DRAFTS] if isinstance(names, list | tuple) else ():
            if name in self.runtime.guards and name not in {*people, *known, *self.runtime.ledger.rollout.drained}:
                task = asyncio.create_task(self._draft(ticket_id, name, request), name=f"draft-{ticket_id}")
                self._drafting.add(task)
                task.add_done_callback(self._drafting.discard)

    async def _draft(self, ticket_id: str, agent: str, request: CallRequest) -> None:
        call = CallRequest(f"{ticket_id}/{agent}", request.text, request.messages)
        with suppress(CallFailure, StorageError, QueueError, Problem):
            reply = await self.runtime.guards[agent].call(call)
            await self.add_draft(ticket_id, agent, reply.text)

    async def _run(self) -> None:
        try:
            while True:
                await self._nap()
                if self.runtime.ready and self._something_is_due():
                    with suppress(StorageError):
                        self.tick(self.runtime.writer.now_us())
        finally:
            for task in self._drafting:
                task.cancel()

    def _something_is_due(self) -> bool:
        """Whether :meth:`tick` would log anything."""
        due_us = self.state.next_due_us()
        strangers = any(ticket.id not in self._own for ticket in self.state.live())
        return strangers or (due_us is not None and due_us <= self.runtime.writer.now_us())

    async def _nap(self) -> None:
        due_us = self.state.next_due_us()
        left_s = _LONGEST_NAP_S if due_us is None else (due_us - self.runtime.writer.now_us()) / 1e6
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(left_s, 0.005), _LONGEST_NAP_S)):
                await self._wake.wait()


def _goes_on(old: Ticket, decision_id: str, agent: str) -> bool:
    """Whether a call continues to wait for the same person as before a restart."""
    return old.decision_id == decision_id or (old.agent == agent and old.reason != WithdrawReason.CANCELLED)


def _given_drafts(request: CallRequest) -> Iterator[dict[str, str]]:
    """Drafts in the caller's request."""
    drafts = request.params.get("drafts", ())
    for each in list(drafts)[:_MOST_DRAFTS] if isinstance(drafts, list | tuple) else ():
        if isinstance(each, dict) and isinstance(each.get("text"), str):
            yield {"agent": str(each.get("agent", ""))[:256], "text": each["text"][:_LONGEST_DRAFT]}
