"""From a request to its answer, complete or streamed: code shared by all interfaces of the gateway."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import msgspec

from bot_orch.agents.base import CallReply, Chunk
from bot_orch.service.api.decisions import KeySpace
from bot_orch.service.api.gateway.chat_request import AUTO, ChatRequest, call_of, chat_task
from bot_orch.service.api.gateway.frames import chat_frame, whole_chat
from bot_orch.service.api.repeating import answer_once
from bot_orch.service.api.tracing import trace_headers
from bot_orch.service.cluster.forwarding import moved
from bot_orch.service.cluster.front import CarriedRound, OwnedHereError, sees_text
from bot_orch.service.cluster.wire import Begin
from bot_orch.service.problems import Problem, Reply, problem_of
from bot_orch.service.routing.rounds import Round, round_of
from bot_orch.service.web.endpoint import Request
from bot_orch.service.web.messages import StreamedReply

_encode = msgspec.json.Encoder().encode
_JSON = [(b"content-type", b"application/json")]


class EventWriter(Protocol):
    """Converts the chunks of one answer to events of an interface."""

    def of(self, chunk: Chunk) -> bytes:
        """The events for one chunk; may be empty."""
        ...

    def end(self) -> bytes:
        """The events after the last chunk."""
        ...

    def failed(self, problem: Problem) -> bytes:
        """The event for an answer that breaks off."""
        ...


class Dialect(Protocol):
    """An interface of the gateway: parsing of requests and formatting of answers."""

    endpoint: str

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        """The request in the terms of a chat; raises a :class:`Problem`."""
        ...

    def whole(self, chat: Mapping[str, Any], asked: ChatRequest) -> Mapping[str, Any]:
        """Convert a chat completion to an answer of this interface."""
        ...

    def writer(self, frame: Mapping[str, Any], asked: ChatRequest) -> EventWriter:
        """A writer of the events of one answer; ``frame`` has the fields of a chat chunk other than its choices."""
        ...


async def answer(dialect: Dialect, request: Request) -> Reply | StreamedReply:
    """Answer a request to an interface, or carry it for the process that owns the router."""
    trace = trace_headers(request)
    if request.carried:
        try:
            return await _carried(dialect, trace, request)
        except OwnedHereError:
            runtime = request.runtime = request.site.runtime
            request.headers_out |= runtime.admit(request.caller.name, request.caller.limits)
    return await answer_once(request, KeySpace.CHAT, partial(_answer, dialect, trace))


def _read(dialect: Dialect, request: Request) -> ChatRequest:
    """The request as a chat; tools that it offers need an agent with the interface, unless it cannot get one."""
    asked = dialect.read(request.body)
    aliases = request.runtime.config.router.aliases
    if asked.model in aliases:
        asked = replace(asked, model=aliases[asked.model])
    if not asked.offered or asked.only:
        return asked
    named = None if asked.model in AUTO else asked.model
    agents = [each for each in request.runtime.config.agents if named in (None, each.id)]
    spoken = {each for agent in agents for each in agent.interfaces or ()}
    if asked.endpoint in spoken or (asked.endpoint == "messages" and any(each.kind == "anthropic" for each in agents)):
        return replace(asked, only=asked.offered[0])
    request.headers_out["x-bot-orch-left-out"] = ", ".join(asked.offered)
    return asked


async def _answer(dialect: Dialect, trace: dict[str, str], request: Request) -> Reply | StreamedReply:
    asked = _read(dialect, request)
    round_ = await round_of(request.runtime, chat_task(request, asked), call_of(asked, trace))
    return await _completed(dialect, asked, request, round_=round_)


async def _carried(dialect: Dialect, trace: dict[str, str], request: Request) -> Reply | StreamedReply:
    """Answer a chat while another process owns the router: the owner decides, this process calls the agent."""
    asked, runtime, caller = _read(dialect, request), request.runtime, request.caller
    if runtime.forwarder is None or runtime.forwarder.owners is None:
        raise moved()
    whole = sees_text(runtime.config)
    begin = Begin(
        0,
        chat_task(request, asked),
        stream=asked.stream,
        endpoint=asked.endpoint,
        limits=caller.limits,
        messages=[dict(each) for each in asked.messages] if whole else [],
        params=dict(asked.params) if whole else {},
    )
    runtime.forwarder.count("carried")
    round_ = CarriedRound(runtime.forwarder.owners, runtime.config, begin, call_of(asked, trace))
    return await _completed(dialect, asked, request, round_=round_)


async def _completed(
    dialect: Dialect, asked: ChatRequest, request: Request, *, round_: Round | CarriedRound
) -> Reply | StreamedReply:
    if asked.stream:
        return await _streamed(dialect, asked, request, round_=round_)
    reply = await _run(request, round_)
    return Reply(200, _whole(dialect, asked, round_, reply=reply), list(_JSON))


async def _run(request: Request, round_: Round | CarriedRound) -> CallReply:
    try:
        return await round_.run()
    finally:
        request.headers_out |= _headers(request, round_)


def _whole(dialect: Dialect, asked: ChatRequest, round_: Round | CarriedRound, *, reply: CallReply) -> bytes:
    if reply.raw is not None and reply.endpoint == dialect.endpoint:
        return reply.raw
    return _encode(dialect.whole(whole_chat(round_.frame(), reply), asked))


async def _streamed(
    dialect: Dialect, asked: ChatRequest, request: Request, *, round_: Round | CarriedRound
) -> StreamedReply:
    """Wait for the first chunk, so that a failure before it still gets its HTTP status."""
    chunks = round_.stream()
    try:
        first = await anext(chunks, None)
    finally:
        request.headers_out |= _headers(request, round_)
    writer = dialect.writer(chat_frame(round_.frame(), "chat.completion.chunk"), asked)
    return StreamedReply(_events(writer, first, chunks))


async def _events(writer: EventWriter, first: Chunk | None, chunks: AsyncIterator[Chunk]) -> AsyncIterator[bytes]:
    try:
        if first is not None and (piece := writer.of(first)):
            yield piece
        async for chunk in chunks:
            piece = writer.of(chunk)
            if piece:
                yield piece
    except Exception as error:
        problem = problem_of(error)
        if problem is None:
            raise
        yield writer.failed(problem)
        return
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
    end = writer.end()
    if end:
        yield end


def _headers(request: Request, round_: Round | CarriedRound) -> dict[str, str]:
    """Headers about the round; the overhead is all time since the request arrived but that which agents took."""
    elapsed_s = max(0.0, time.perf_counter() - request.started - round_.meter.seconds)
    if isinstance(round_, Round):
        request.runtime.metrics.observe("bot_orch_overhead_seconds", elapsed_s)
    return {**round_.headers(), "x-bot-orch-overhead-ms": f"{1e3 * elapsed_s:.2f}"}
