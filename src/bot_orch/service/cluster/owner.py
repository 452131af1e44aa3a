"""The owner's side of chats that fronts carry: it admits, decides and learns; the front calls agents and streams."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from bot_orch.agents.base import CallReply, CallRequest, Chunk, Usage
from bot_orch.core.events import AttemptEnded, Event, FeedbackGiven
from bot_orch.log.events import decode_event
from bot_orch.service.cluster.wire import (
    FROM_FRONT,
    Begin,
    Call,
    Cancel,
    Done,
    Failed,
    First,
    Go,
    Hello,
    Inherit,
    MessageConnection,
    Moved,
    Refused,
    Stop,
)
from bot_orch.service.problems import Problem, problem_of
from bot_orch.service.routing.rounds import Round, round_of
from bot_orch.service.runtime import Runtime

_log = logging.getLogger("bot_orch.cluster")
_INHERIT_S, _LOOK_S = 10.0, 0.05


class RoundServer:
    """Serves fronts.

    Parameters
    ----------
    secret
        What a front has to say first; empty if the socket is private.
    """

    def __init__(self, secret: str = "") -> None:
        self.secret = secret
        self.current: Callable[[], Runtime] | None = None  # the runtime that serves now
        self._carriers: dict[tuple[MessageConnection, int], _Carrier] = {}
        self._known: set[MessageConnection] = set()
        self._connections: set[MessageConnection] = set()
        self._inheriting: set[asyncio.Task[None]] = set()

    def protocol(self) -> MessageConnection:
        """A new protocol object for one connection."""
        made = MessageConnection(FROM_FRONT, self._take, self._lost)
        self._connections.add(made)
        return made

    async def drained(self, grace_s: float) -> None:
        """Wait for the chats that fronts carry, but no longer than the grace."""
        tasks = {each.task for each in self._carriers.values() if each.task is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)

    def close(self) -> None:
        """End all connections."""
        for each in tuple(self._connections):
            each.close()

    def _take(self, connection: MessageConnection, message: Any) -> None:
        if isinstance(message, Hello) and hmac.compare_digest(message.secret, self.secret):
            self._known.add(connection)
        elif connection not in self._known:
            connection.close()
        elif isinstance(message, Inherit):
            self.inherit(decode_event(message.event))
        elif isinstance(message, Begin):
            carrier = self._carriers[connection, message.number] = _Carrier(connection, message)
            carrier.task = asyncio.ensure_future(self._serve(message, carrier))
            carrier.task.add_done_callback(partial(self._ended, (connection, message.number)))
        elif (found := self._carriers.get((connection, message.number))) is not None:
            found.take(message)

    def inherit(self, event: Event) -> None:
        """Log the result of a call that the previous owner began, once the router is loaded; ignored if it moved on."""
        task = asyncio.ensure_future(self._inherit(event))
        self._inheriting.add(task)
        task.add_done_callback(self._inheriting.discard)

    async def _inherit(self, event: Event) -> None:
        for _ in range(round(_INHERIT_S / _LOOK_S)):
            runtime = None if self.current is None else self.current()
            if runtime is not None and not runtime.away and runtime.ready:
                if isinstance(event, AttemptEnded | FeedbackGiven):
                    runtime.inherit(event)
                return
            await asyncio.sleep(_LOOK_S)

    def _ended(self, key: tuple[MessageConnection, int], task: asyncio.Task[None]) -> None:
        self._carriers.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("defect", exc_info=error, extra={"fields": {"route": "carried chat"}})
            problem = Problem(500, "internal", "the service failed; the log has details")
            key[0].send(Refused.of(key[1], problem, {}))

    def _lost(self, connection: MessageConnection) -> None:
        """Handle the loss of a front and its clients."""
        self._connections.discard(connection)
        self._known.discard(connection)
        for (of, _), carrier in tuple(self._carriers.items()):
            if of is connection and carrier.task is not None:
                carrier.task.cancel()

    async def _serve(self, begin: Begin, carrier: _Carrier) -> None:
        runtime = None if self.current is None else self.current()
        if runtime is None or runtime.away:
            carrier.send(Moved(begin.number))
            return
        runtime.serving += 1
        headers: dict[str, str] = {}
        try:
            await runtime.loaded_soon()
            runtime.check_loaded()
            headers = runtime.admit(begin.chat.constraints.token, begin.limits)
            await self._run(runtime, begin, carrier, headers=headers)
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            if problem.code == "moved":
                carrier.send(Moved(begin.number))
                return
            round_headers = {} if carrier.round is None else carrier.round.headers()
            carrier.send(Refused.of(begin.number, problem, headers | round_headers))
        finally:
            runtime.serving -= 1

    async def _run(self, runtime: Runtime, begin: Begin, carrier: _Carrier, *, headers: dict[str, str]) -> None:
        call = CallRequest(
            "",
            messages=tuple(begin.messages),
            params=begin.params,
            stream=begin.stream,
            endpoint=begin.endpoint,
            carrier=carrier,
        )
        carrier.round = round_ = await round_of(runtime, begin.chat, call)
        if not begin.stream:
            await round_.run()
            carrier.go(headers)
            return
        shown = None
        async for _ in round_.stream():
            if shown is not round_.last:  # also for an agent that takes over
                carrier.go(headers)
            shown = round_.last


class _Carrier:
    """Calls agents through the front that began a chat; it is the :class:`AgentRunner` of these calls.

    Parameters
    ----------
    connection, begun
        Of the front, and how the chat began.
    """

    def __init__(self, connection: MessageConnection, begun: Begin) -> None:
        self._connection, self._number, self.begun = connection, begun.number, begun
        self._inbox: asyncio.Queue[First | Done | Failed] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None
        self.round: Round | None = None
        self.usage: Usage | None = None  # of a stream whose client has left

    def send(self, message: Any) -> None:
        """Send a message to the front."""
        self._connection.send(message)

    def take(self, message: First | Done | Failed | Cancel) -> None:
        """Handle a message of the front."""
        if isinstance(message, Cancel):
            self.usage = message.usage
            if self.task is not None:
                self.task.cancel()
        else:
            self._inbox.put_nowait(message)

    def go(self, headers: dict[str, str]) -> None:
        """Tell the front that the last decision is on disk."""
        if self.round is not None:
            frame = self.round.frame()
            self.send(Go(self._number, headers | self.round.headers(), frame.decision_id, frame.agent, frame.created_s))

    async def call(self, request: CallRequest) -> CallReply:
        """See :class:`AgentRunner`."""
        message = await self._call(request)
        if isinstance(message, Failed):
            raise message.failure()
        return message.reply if isinstance(message, Done) else CallReply()

    async def stream(self, request: CallRequest) -> AsyncGenerator[Chunk, None]:
        """See :class:`AgentRunner`: one chunk when content begins, and one at the end."""
        message = await self._call(request)
        while isinstance(message, First):
            yield Chunk(more=True)
            message = await self._next()
        if isinstance(message, Failed):
            self.usage = message.usage
            if self.round is not None:
                self.round.partial.fixed, self.round.partial.prefilled = message.fixed, message.prefilled
            raise message.failure()
        yield Chunk(reply=message.reply)

    async def close(self) -> None:
        """See :class:`AgentRunner`."""

    async def _call(self, request: CallRequest) -> First | Done | Failed:
        agent = self.round.last.agent if self.round is not None and self.round.last is not None else ""
        self.usage = None
        begun, looks = self.begun, self.round is not None and self.round.looks
        logprobs = looks and "logprobs" in request.params and "logprobs" not in begun.params
        self.send(Call(self._number, agent, request.id, logprobs))
        return await self._next()

    async def _next(self) -> First | Done | Failed:
        try:
            return await self._inbox.get()
        except asyncio.CancelledError:
            with suppress(RuntimeError):
                self.send(Stop(self._number))
            raise
