"""Messages between a front and the owner of the router, over one connection for all chats of the front.

A message is a length of four bytes and MessagePack; its number says which chat it is about. Messages of one turn of the
event loop are written together. Each side sends an empty message every second, so that one that is frozen is noticed.

A front sends ``Begin``; the owner answers with ``Call`` (ask this agent), ``Refused`` or ``Moved``. The front calls the
agent, and says ``First`` when a stream has content, then ``Done`` or ``Failed``. After a failure, or an answer that is
looked at before delivery, the owner says whom to ask next, or refuses; a stream that broke off goes on with another
agent if ``router.midstream`` allows it. ``Go`` says that the decision is on disk and whose answer to deliver: nothing
of an answer is shown before. ``Cancel`` says that the client has left, ``Stop`` that the call is not wanted any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from bot_orch.agents.base import Attempt, CallFailure, CallReply, Usage
from bot_orch.agents.endings import Ending
from bot_orch.service.config import TokenLimitsConfig
from bot_orch.service.problems import Problem
from bot_orch.service.routing.midstream import PartialAnswer
from bot_orch.service.routing.rounds import ChatTask
from bot_orch.transport.measures import measure_from_dict
from bot_orch.types import Measure

_OF_FAILURES = ("started", "status", "retry_after_s", "elapsed_s", "first_byte_s", "raw", "attempts")
_LENGTH = 4
_MOST_QUIET = 5  # seconds
_MOST = 256_000_000  # bytes of a message: a body and its answer are far below


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int


class Hello(_Message, frozen=True):
    """The first message of a front, with a secret known only to processes of the same service."""

    secret: str


class Begin(_Message, frozen=True):
    """A chat begins; ``messages`` and ``params`` are there if the owner has judges or compares answers."""

    chat: ChatTask
    stream: bool
    endpoint: str
    limits: TokenLimitsConfig | None
    messages: list[dict[str, Any]]
    params: dict[str, Any]


class First(_Message, frozen=True):
    """The stream has content."""


class Done(_Message, frozen=True):
    """The agent has answered; the text is there if the owner has judges."""

    reply: CallReply


class Failed(_Message, frozen=True):
    """The agent failed to answer or to finish; ``usage`` is that of the interrupted stream.

    ``fixed`` and ``prefilled`` are those of the :class:`PartialAnswer` that the client has.
    """

    ending: Ending
    message: str
    usage: Usage | None
    started: bool
    status: int | None
    retry_after_s: float | None
    elapsed_s: float
    first_byte_s: float | None
    raw: bytes | None
    attempts: tuple[Attempt, ...]
    fixed: bool
    prefilled: bool

    @classmethod
    def of(cls, number: int, failure: CallFailure, usage: Usage | None, *, partial: PartialAnswer) -> Failed:
        """The message about a failure."""
        message = str(failure).removeprefix(f"{failure.ending}: ")
        values = {name: getattr(failure, name) for name in _OF_FAILURES}
        return cls(number, failure.ending, message, usage, fixed=partial.fixed, prefilled=partial.prefilled, **values)

    def failure(self) -> CallFailure:
        """The failure."""
        return CallFailure(self.ending, self.message, **{name: getattr(self, name) for name in _OF_FAILURES})


class Cancel(_Message, frozen=True):
    """The client disconnected; ``usage`` is that of the streamed part."""

    usage: Usage | None = None


class Call(_Message, frozen=True):
    """Call this agent; ``logprobs`` asks how sure it is."""

    agent: str
    decision_id: str
    logprobs: bool = False


class Go(_Message, frozen=True):
    """The decision is on disk; ``headers`` belong to the answer, the other fields to the frame around it."""

    headers: dict[str, str]
    decision_id: str
    agent: str
    created_s: int


class Refused(_Message, frozen=True):
    """There is no answer; ``headers`` belong to the round."""

    headers: dict[str, str]
    status: int
    code: str
    message: str
    param: str | None
    problem_headers: dict[str, str]
    details: Any
    kind: str | None

    @classmethod
    def of(cls, number: int, problem: Problem, headers: dict[str, str]) -> Refused:
        """The message about a problem."""
        p = problem
        return cls(number, headers, p.status, p.code, p.message, p.param, p.headers, p.details, p.kind)

    def problem(self) -> Problem:
        """The problem."""
        more: Any = {"param": self.param, "headers": self.problem_headers, "details": self.details, "kind": self.kind}
        return Problem(self.status, self.code, self.message, **more)


class Moved(_Message, frozen=True):
    """The router is not here, and the request had no effect."""


class Stop(_Message, frozen=True):
    """The call is not wanted any more."""


class Inherit(_Message, frozen=True):
    """Result of a call that was in progress when the router moved: an event for the next owner to log."""

    event: bytes


def _encodable(value: Any) -> Any:
    return value.to_dict() if isinstance(value, Measure) else dict(value)


def _decoded(kind: type, value: Any) -> Any:
    if kind is not Measure:
        raise NotImplementedError(kind)
    return measure_from_dict(value)


FROM_FRONT = msgspec.msgpack.Decoder(Hello | Begin | First | Done | Failed | Cancel | Inherit, dec_hook=_decoded)
FROM_OWNER = msgspec.msgpack.Decoder(Call | Go | Refused | Moved | Stop)
_encode = msgspec.msgpack.Encoder(enc_hook=_encodable).encode


class MessageConnection(asyncio.Protocol):
    """One side of a connection between a front and an owner.

    Parameters
    ----------
    decoder
        Of what arrives.
    take
        Takes a message; whatever it raises closes the connection.
    lost
        Called once the connection has ended.
    """

    def __init__(
        self,
        decoder: msgspec.msgpack.Decoder[Any],
        take: Callable[[MessageConnection, Any], None],
        lost: Callable[[MessageConnection], None],
    ) -> None:
        self._decoder, self._take, self._lost = decoder, take, lost
        self._transport: asyncio.Transport | None = None
        self._in, self._out = bytearray(), list[bytes]()
        self._quiet = 0  # seconds, as this process counts them
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.Protocol`."""
        self._transport, self.open = transport, True  # type: ignore[assignment]
        self._tick()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        self.open = False
        self._lost(self)

    def data_received(self, data: bytes) -> None:
        """Handle all complete messages."""
        self._quiet = 0
        self._in += data
        begin = 0
        while len(self._in) - begin >= _LENGTH:
            size = int.from_bytes(self._in[begin : begin + _LENGTH], "little")
            end = begin + _LENGTH + size
            if size > _MOST:
                self.close()
                return
            if len(self._in) < end:
                break
            if not size:
                begin = end
                continue
            try:
                with memoryview(self._in)[begin + _LENGTH : end] as data_of_it:
                    message = self._decoder.decode(data_of_it)
            except msgspec.MsgspecError:  # of another release
                self.close()
                return
            self._take(self, message)
            begin = end
        del self._in[:begin]

    def send(self, message: _Message) -> None:
        """Send a message, batched with others of the same loop iteration; ignored if the connection has ended."""
        if not self.open:
            return
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        data = _encode(message)
        self._out += (len(data).to_bytes(_LENGTH, "little"), data)

    def close(self) -> None:
        """Close the connection after sending buffered messages."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def _tick(self) -> None:
        """Send a keepalive, and close the connection if the other side has been silent for too long."""
        if not self.open or self._transport is None:
            return
        self._quiet += 1
        if self._quiet > _MOST_QUIET:
            self._transport.abort()
            return
        self._transport.write(bytes(_LENGTH))
        asyncio.get_running_loop().call_later(1.0, self._tick)

    def _flush(self) -> None:
        if self._out and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(self._out)
        self._out = []
