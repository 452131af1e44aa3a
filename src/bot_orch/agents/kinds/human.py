"""People as agents, reached through a :class:`HumanQueue`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from bot_orch.agents.base import CallFailure, CallReply, CallRequest, Chunk
from bot_orch.agents.endings import Ending
from bot_orch.agents.replies import in_one_piece
from bot_orch.errors import InvalidInputError

_LONGEST = 1_000_000  # of a request: a ticket is written to the log and shown on a page


@dataclass(frozen=True, slots=True)
class HumanSettings:
    """Time limit for an answer; a task without an answer in time is a censored outcome.

    With ``chat`` requests whose caller waits for the answer may be drawn to people too, not only tasks.
    """

    answer_within_s: float = 3600.0
    chat: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.answer_within_s < math.inf:
            raise InvalidInputError("answer_within_s", f"is {self.answer_within_s}", "set seconds, more than zero")


@dataclass(frozen=True, slots=True)
class HumanAnswer:
    """A person's answer, or a rejection with its reason."""

    text: str = ""
    rejected: bool = False
    reason: str = ""
    by: str = ""


class HumanQueue(Protocol):
    """Queue interface for the runner. Leases, roles and user interface belong to the implementation."""

    async def enqueue(self, request: CallRequest, answer_within_s: float) -> str:
        """Enqueue the task; returns a ticket id."""
        ...

    async def answer(self, ticket: str) -> HumanAnswer:
        """Wait until a person has answered or rejected the ticket."""
        ...

    async def withdraw(self, ticket: str, ending: Ending) -> None:
        """Withdraw a ticket; a later answer is stale."""
        ...


class HumanRunner:
    """Runner that sends tasks to people through a queue."""

    def __init__(self, settings: HumanSettings, queue: HumanQueue) -> None:
        self._settings = settings
        self._queue = queue
        self.chats = settings.chat

    async def call(self, request: CallRequest) -> CallReply:
        """Enqueue the task and wait for an answer; texts over a million characters are refused."""
        if len(request.plain()) > _LONGEST:
            raise CallFailure(Ending.REFUSED_REQUEST, f"not asked: people get {_LONGEST} characters at most")
        ticket = await self._queue.enqueue(request, self._settings.answer_within_s)
        timer = asyncio.timeout(self._settings.answer_within_s)
        try:
            async with timer:
                answer = await self._queue.answer(ticket)
        except asyncio.CancelledError:
            await self._queue.withdraw(ticket, Ending.CANCELLED_BY_CALLER)
            raise
        except TimeoutError:
            if not timer.expired():
                raise
            await self._queue.withdraw(ticket, Ending.UNANSWERED)
            raise CallFailure(Ending.UNANSWERED) from None
        if answer.rejected:
            raise CallFailure(Ending.REJECTED)
        return CallReply(answer.text, extra={"by": answer.by, "ticket": ticket})

    async def stream(self, request: CallRequest) -> AsyncGenerator[Chunk, None]:
        """Stream the answer as a single chunk."""
        async for chunk in in_one_piece(await self.call(request)):
            yield chunk

    async def close(self) -> None:
        """Do nothing: the caller owns the queue."""
