"""The front's side of chats while another process owns the router: it queries the owner, calls agents and streams."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import msgspec

from bot_orch.agents.admission import OpenAdmission
from bot_orch.agents.base import AgentMeter, CallFailure, CallReply, CallRequest, Chunk, Usage
from bot_orch.agents.breaker import BreakerSettings
from bot_orch.agents.endings import Ending
from bot_orch.agents.guard import Guard
from bot_orch.agents.limits import Retry
from bot_orch.agents.replies import made_in
from bot_orch.service.build import called_alike, make_guard
from bot_orch.service.cluster.forwarding import Directory, broken, no_owner
from bot_orch.service.cluster.wire import (
    FROM_OWNER,
    Begin,
    Call,
    Cancel,
    Done,
    Failed,
    First,
    Go,
    Hello,
    MessageConnection,
    Moved,
    Refused,
    Stop,
)
from bot_orch.service.config import AgentConfig, Config
from bot_orch.service.operations.tracing import traces_wanted
from bot_orch.service.problems import Problem
from bot_orch.service.routing.midstream import PartialAnswer
from bot_orch.service.routing.rounds import AnswerFrame
from bot_orch.service.routing.steps import SURE, confidence, with_logprobs, without_logprobs

_log = logging.getLogger("bot_orch.cluster")
_CONNECT_S, _LOOK_S = 2.0, 0.1
_NEVER = BreakerSettings(failures=1_000_000_000)
T = TypeVar("T")


def carries(config: Config) -> bool:
    """Whether fronts can serve chats.

    Not if the owner traces its calls, nor if people answer, at the owner.
    """
    return not traces_wanted() and all(each.kind != "human" for each in config.agents)


def sees_text(config: Config) -> bool:
    """Whether the owner needs the texts of chats and answers: for judges, signals, audits or comparisons."""
    settings = config.router
    return bool(config.judges or settings.looks or config.audit is not None or settings.observe is not None)


class OwnedHereError(Exception):
    """The router belongs to this process by now."""


class Owners:
    """Connections to owners of the router, and the agents to call for them.

    Parameters
    ----------
    directory
        Who owns the router.
    wait_s
        How long a chat waits for an owner.
    """

    def __init__(self, directory: Directory, *, wait_s: float) -> None:
        self.directory, self.wait_s = directory, wait_s
        self._connections: dict[str, asyncio.Task[MessageConnection]] = {}
        self._rounds: dict[int, CarriedRound] = {}
        self._guards: dict[str, tuple[AgentConfig, Guard]] = {}
        self._last = 0

    async def connection(self) -> MessageConnection:
        """Wait for the connection to the router's owner; raise an error if this process owns it, or no process does."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.wait_s
        while True:
            found = self.directory.owner_elsewhere
            if found is not None and found.rounds:
                try:
                    return await asyncio.shield(self._connected(found.rounds))
                except (OSError, TimeoutError) as error:
                    _log.warning("an owner does not answer", extra={"fields": {"detail": str(error)}})
            if self.directory.owner == self.directory.own:
                raise OwnedHereError
            if loop.time() >= until:
                raise no_owner()
            await self.directory.changed(min(_LOOK_S, max(0.0, until - loop.time())))

    def begin(self, round_: CarriedRound) -> int:
        """Register a chat to receive messages; returns its number."""
        self._last += 1
        self._rounds[self._last] = round_
        return self._last

    def end(self, number: int) -> None:
        """Forget a chat."""
        self._rounds.pop(number, None)

    def guard(self, agent: AgentConfig) -> Guard:
        """The agent with its timeouts only; the owner applies all other limits."""
        known = self._guards.get(agent.id)
        if known is not None and (known[0] is agent or called_alike(known[0], agent)):
            return known[1]
        made = make_guard(agent)
        admission = OpenAdmission(made.limits, time.monotonic)
        guard = Guard(
            agent.id,
            made.runner,
            made.limits,
            retry=Retry(tries=1),
            price=made.price,
            breaker=_NEVER,
            capabilities=made.capabilities,
            admission=admission,
        )
        self._guards[agent.id] = agent, guard
        return guard

    async def close(self) -> None:
        """End all connections and calls."""
        for each in self._connections.values():
            if each.done() and not each.cancelled() and each.exception() is None:
                each.result().close()
            each.cancel()
        for _, guard in self._guards.values():
            await guard.close()

    def _connected(self, address: str) -> asyncio.Task[MessageConnection]:
        known = self._connections.get(address)
        failed = known is not None and known.done() and (known.exception() is not None or not known.result().open)
        if known is None or failed:
            known = self._connections[address] = asyncio.ensure_future(self._connect(address))
        return known

    async def _connect(self, address: str) -> MessageConnection:
        """Connect to ``host:port secret``, or to the path of a socket."""
        loop, make = asyncio.get_running_loop(), partial(MessageConnection, FROM_OWNER, self._take, self._lost)
        reach, _, secret = address.partition(" ")
        connection: MessageConnection
        async with asyncio.timeout(_CONNECT_S):
            if reach.startswith("/"):
                _, connection = await loop.create_unix_connection(make, reach)
            else:
                host, _, port = reach.rpartition(":")
                _, connection = await loop.create_connection(make, host.strip("[]"), int(port))
        connection.send(Hello(0, secret))
        return connection

    def _take(self, _: MessageConnection, message: Any) -> None:
        found = self._rounds.get(message.number)
        if found is not None:
            found.take(message)

    def _lost(self, connection: MessageConnection) -> None:
        for each in tuple(self._rounds.values()):
            if each.connection is connection:
                each.take(None)


class CarriedRound:
    """A chat while another process owns the router, with the interface of a :class:`Round`.

    Parameters
    ----------
    owners
        Where to ask.
    config
        The settings.
    begin
        What the owner needs.
    call
        What agents are asked.
    """

    def __init__(self, owners: Owners, config: Config, begin: Begin, call: CallRequest) -> None:
        self._owners, self._config, self._begin, self._call = owners, config, begin, call
        self.number, self.meter = 0, AgentMeter()
        self.connection: MessageConnection | None = None
        self._whole = sees_text(config)
        self._inbox: asyncio.Queue[Call | Go | Refused | Moved | None] = asyncio.Queue()
        self._working: asyncio.Future[Any] | None = None
        self._stopped = self._over = self._added = False
        self._usage: Usage | None = None
        self._headers: dict[str, str] = {}
        self._partial = PartialAnswer(config.router.midstream)
        self._frame = AnswerFrame("", "auto", 0)

    def take(self, message: Any) -> None:
        """Handle a message of the owner; ``None`` means that the connection is lost."""
        if message is None or isinstance(message, Stop):
            self._stopped = True
            if self._working is not None:
                self._working.cancel()
        if not isinstance(message, Stop):
            self._inbox.put_nowait(message)

    def headers(self) -> dict[str, str]:
        """Response headers about the round."""
        return self._headers

    def frame(self) -> AnswerFrame:
        """See :meth:`Round.frame`."""
        return self._frame

    async def run(self) -> CallReply:
        """Call agents until one answers; returns the answer."""
        answers: dict[str, CallReply] = {}
        try:
            decided: Call | None = await self._first_call()
            while decided is not None:
                try:
                    guard, request = self._target(decided)
                    reply = await self._unless_stopped(guard.call(request))
                except CallFailure as failure:
                    self._send(Failed.of(self.number, failure, None, partial=self._partial))
                else:
                    if reply is not None:
                        answers[decided.agent] = replace(reply, raw=self._own(reply.raw))
                        self._send(Done(self.number, self._shown(reply)))
                decided = await self._next_step()
            return answers[self._frame.agent]
        finally:
            self._end()

    async def stream(self) -> AsyncIterator[Chunk]:
        """Stream the answer in chunks; after a failure the owner says whether another agent goes on."""
        partial = self._partial
        try:
            decided = await self._first_call()
            while True:
                shown, self._usage = False, None
                try:
                    guard, request = self._target(decided)
                    request = partial.request(request, partial.style(guard.agent_id, guard.capabilities))
                    async with aclosing(guard.stream(request)) as chunks:
                        chunk = await self._unless_stopped(anext(chunks))
                        while chunk is not None:
                            self._usage = chunk.usage or self._usage
                            if not shown:
                                self._send(First(self.number))
                                await self._go()
                                if partial.begun:
                                    yield partial.opening(guard.agent_id)
                                shown = True
                            if chunk.reply is not None:
                                self._send(Done(self.number, self._shown(partial.whole(chunk.reply))))
                                self._over = True
                            if (piece := partial.add(chunk)) is not None:
                                yield piece
                            chunk = await anext(chunks, None)
                    if shown:
                        return
                except CallFailure as failure:
                    self._send(Failed.of(self.number, failure, self._usage, partial=partial))
                    partial.failed(decided.agent, failure)
                decided = await self._next_call()
        finally:
            self._end()

    async def _first_call(self) -> Call:
        """Wait for the first decision; start again if the router moves before there is one."""
        while True:
            self.connection = await self._owners.connection()
            self.number = self._owners.begin(self)
            self._send(msgspec.structs.replace(self._begin, number=self.number))
            message = await self._inbox.get()
            if isinstance(message, Call):
                return message
            if isinstance(message, Refused):
                raise self._refused(message)
            self._owners.end(self.number)
            self._stopped = False
            await asyncio.sleep(_LOOK_S)

    async def _next_call(self) -> Call:
        decided = await self._next_step()
        if decided is None:
            raise broken()
        return decided

    async def _next_step(self) -> Call | None:
        """The next agent to call; None if the owner has accepted an answer."""
        message = await self._inbox.get()
        if isinstance(message, Call):
            return message
        if not isinstance(message, Go):
            raise self._refused(message) if isinstance(message, Refused) else broken()
        self._take_go(message)
        return None

    async def _go(self) -> None:
        if await self._next_step() is not None:
            raise broken()

    def _take_go(self, message: Go) -> None:
        self._headers = message.headers
        self._frame = AnswerFrame(message.decision_id, message.agent, message.created_s)
        self._over = not self._begin.stream

    async def _unless_stopped(self, work: Awaitable[T]) -> T | None:
        """Await the result; ``None`` if the owner cancels it or is gone."""
        working: asyncio.Future[T] = asyncio.ensure_future(work)
        self._working = working
        if self._stopped:
            working.cancel()
        try:
            return await working
        except asyncio.CancelledError:
            if not self._stopped:
                raise
            return None
        finally:
            self._working = None

    def _target(self, decided: Call) -> tuple[Guard, CallRequest]:
        agent = next((each for each in self._config.agents if each.id == decided.agent), None)
        if agent is None:  # the owner has another file
            raise CallFailure(Ending.REFUSED_BUSY, "not asked: the process that took the request has no such agent")
        request = with_logprobs(self._call) if decided.logprobs else self._call
        self._added |= decided.logprobs
        request = replace(request, id=decided.decision_id, meter=self.meter)
        return self._owners.guard(agent), request

    def _own(self, raw: bytes | None) -> bytes | None:
        """What an agent sent, without what only the owner has asked for."""
        return without_logprobs(raw) if self._added else raw

    def _shown(self, reply: CallReply) -> CallReply:
        """The part of an answer that the owner needs."""
        named = reply.extra.get("completion_id")
        extra: dict[str, Any] = {"completion_id": named} if isinstance(named, str) else {}
        if self._config.router.signal == "logprobs":
            extra[SURE] = confidence(reply)
        reply = replace(reply, extra=extra, made=made_in(reply))
        return reply if self._whole else replace(reply, text="", output=None, raw=None)

    def _refused(self, message: Refused) -> Problem:
        self._headers, self._over = message.headers, True
        return message.problem()

    def _send(self, message: Any) -> None:
        if self.connection is not None:
            self.connection.send(message)

    def _end(self) -> None:
        if not self._over:
            self._send(Cancel(self.number, self._usage))
        self._owners.end(self.number)
