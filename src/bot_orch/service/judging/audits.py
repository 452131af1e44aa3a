"""Audits by people: a ticket in their queue asks for the true value of an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from bot_orch.agents.base import CallFailure, CallRequest
from bot_orch.agents.endings import Ending
from bot_orch.core.events import DecisionMade, FeedbackGiven
from bot_orch.service.judges.answer import AnswerGiven
from bot_orch.service.judges.models import read_score
from bot_orch.service.judging.verdicts import report
from bot_orch.service.runtime import Runtime

_log = logging.getLogger("bot_orch.judges")
#: Prefix of the request that a ticket for an audit belongs to; the rest is the decision's id.
PREFIX = "audit-"
_ANSWER_WITHIN_S = 86_400.0
_TEXT = (
    "Audit. How good is this answer, from 0 (worthless) to 10 (perfect)? Write a number; "
    "reject it if you cannot tell.\n\n--- request ---\n{question}\n\n--- answer ---\n{answer}"
)
_MOST_CHARACTERS = 20_000


class HumanAudits:
    """Tickets about audited answers. Tickets and log contain the request and the answer.

    Parameters
    ----------
    runtime
        The service, with its queue.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def ask(self, answer: AnswerGiven) -> None:
        """Open a ticket and log the score that a person gives."""
        queue, audit = self._runtime.queue, self._runtime.config.audit
        if queue is None or audit is None:
            return
        text = _TEXT.format(question=answer.question[-_MOST_CHARACTERS:], answer=answer.text[:_MOST_CHARACTERS])
        ticket = await queue.enqueue(CallRequest(f"{PREFIX}{answer.decision_id}", text), _ANSWER_WITHIN_S)
        await self._wait(ticket, answer)

    async def resume(self, start: Callable[[str, Awaitable[None]], None]) -> None:
        """After a restart, wait for open tickets again, and log scores that were given but not logged."""
        queue = self._runtime.queue
        for ticket in () if queue is None else queue.left_behind(PREFIX):
            decision_id = ticket.decision_id.removeprefix(PREFIX)
            events = [row.event() for row in await self._runtime.writer.settled(decision_id)]
            made = next((event for event in events if isinstance(event, DecisionMade)), None)
            if made is None or any(isinstance(event, FeedbackGiven) and event.audit for event in events):
                continue
            answer = AnswerGiven(made.id, made.agent, made.task.kind, audit=True)
            start(decision_id, self._wait(ticket.id, answer))

    async def _wait(self, ticket: str, answer: AnswerGiven) -> None:
        queue, rate = self._runtime.queue, self._rate()
        if queue is None:
            return
        timer = asyncio.timeout(_ANSWER_WITHIN_S)
        try:
            async with timer:
                given = await queue.answer(ticket)
        except CallFailure:  # nobody answered in time: it was opened before a restart
            return
        except TimeoutError:
            if not timer.expired():
                raise
            await queue.withdraw(ticket, Ending.UNANSWERED)
            return
        value = None if given.rejected else read_score(given.text)
        if value is None:
            fields = {"decision": answer.decision_id, "ticket": ticket}
            _log.warning("an audit gave no score from 0 to 10", extra={"fields": fields})
            return
        await report(self._runtime, answer, "human", value=value, rate=rate, audit=True)

    def _rate(self) -> float:
        audit = self._runtime.config.audit
        return 1.0 if audit is None else audit.rate
