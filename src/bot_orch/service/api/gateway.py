"""``/v1/chat/completions`` and ``/v1/models``: OpenAI clients work unchanged, with ``model="auto"``."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import msgspec

from bot_orch.agents.base import CallReply, CallRequest, Chunk
from bot_orch.agents.kinds.streamed import asks_for_counts
from bot_orch.eventlog.events import TaskRecord
from bot_orch.eventlog.ids import time_ordered_id
from bot_orch.service.api.bodies import ChatAside, ChatHints
from bot_orch.service.api.decisions import KeySpace
from bot_orch.service.api.repeating import answer_once
from bot_orch.service.api.tracing import trace_headers
from bot_orch.service.problems import Problem, Reply, json_reply, problem_of
from bot_orch.service.routing.estimates import size_of
from bot_orch.service.routing.rounds import Round
from bot_orch.service.routing.rules import RoutingConstraints
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.endpoint import Request, StreamedReply

__all__ = ["complete", "models"]

_AUTO = frozenset({"auto", "bot-orch", "bot-orch/auto"})
_OURS = frozenset({"model", "messages", "stream", "bot_orch"})
_encode = msgspec.json.Encoder().encode


async def models(request: Request) -> Reply:
    """``GET /v1/models``: ``auto`` and every agent."""
    names = ("auto", *request.runtime.ledger.router.agents)
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "bot-orch"} for name in names]
    return json_reply({"object": "list", "data": data})


async def complete(request: Request) -> Reply | StreamedReply:
    """``POST /v1/chat/completions``."""
    trace = trace_headers(request)
    return await answer_once(request, KeySpace.CHAT, partial(_complete, trace))


async def _complete(trace: dict[str, str], request: Request) -> Reply | StreamedReply:
    body = request.body
    round_ = _round(request.runtime, body, request, trace=trace)
    if body.get("stream") is True:
        return await _streamed(request, round_)
    try:
        reply = await round_.run()
    finally:
        request.headers_out |= _headers(request, round_)
    if reply.raw is not None:
        return Reply(200, reply.raw, [(b"content-type", b"application/json")])
    return json_reply(_document(round_, reply))


def _round(runtime: Runtime, body: dict[str, Any], request: Request, *, trace: dict[str, str]) -> Round:
    model, messages = body.get("model"), body.get("messages")
    if not isinstance(model, str) or not model:
        raise Problem(400, "missing_model", "model: is missing; write auto or the name of an agent", param="model")
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise Problem(400, "missing_messages", "messages: must be a list of messages", param="messages")
    eligible = None if model in _AUTO else (model,)
    if eligible is not None and model not in runtime.ledger.router.agents:
        raise Problem(404, "model_not_found", "there is no such model; see /v1/models", param="model")
    aside = msgspec.convert({"bot_orch": body.get("bot_orch")}, ChatAside).bot_orch or ChatHints()
    params = {name: value for name, value in body.items() if name not in _OURS}
    constraints = RoutingConstraints(
        aside.kind,
        eligible,
        aside.session or None,
        size=size_of(params, messages=messages),
        calls=True,
        token=request.caller.name,
        tags=request.tags,
    )
    call = CallRequest("", messages=tuple(messages), params=params, stream=body.get("stream") is True, headers=trace)
    task_id = f"chat-{time_ordered_id(runtime.writer.now_us())}"
    record = TaskRecord(task_id, aside.kind, aside.features, aside.reference, aside.profiles, aside.claims)
    return Round(runtime, record, constraints, call=call)


async def _streamed(request: Request, round_: Round) -> StreamedReply:
    """Wait for the first chunk, so that a failure before it still gets its HTTP status."""
    chunks = round_.stream()
    try:
        first = await anext(chunks, None)
    finally:
        request.headers_out |= _headers(request, round_)
    return StreamedReply(_events(round_, first, chunks))


async def _events(round_: Round, first: Chunk | None, chunks: AsyncIterator[Chunk]) -> AsyncIterator[bytes]:
    events = _Events(_frame(round_, "chat.completion.chunk"), asks_for_counts(round_.call.params))
    try:
        if first is not None:
            yield events.of(first)
        async for chunk in chunks:
            piece = events.of(chunk)
            if piece:
                yield piece
    except Exception as error:
        problem = problem_of(error)
        if problem is None:
            raise
        yield _event(_encode(problem.document()))
        return
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
    yield _event(b"[DONE]")


@dataclass(slots=True)
class _Events:
    """The chunks of one answer as server-sent events.

    Events of an upstream are passed on unchanged, with its id, model and finish reasons. For agents that have none they
    are made here: the role once, one finish reason, token counts if asked for.
    """

    frame: dict[str, Any]
    counts: bool
    _: KW_ONLY
    passed: bool = False
    begun: bool = False

    def of(self, chunk: Chunk) -> bytes:
        if chunk.raw is not None:
            self.passed = True
            return _event(chunk.raw)
        made = [self._text(chunk.text)] if chunk.text else []
        if chunk.reply is not None and not self.passed:
            made += self._end(chunk.reply)
        return b"".join(_event(_encode({**self.frame, **part})) for part in made)

    def _text(self, text: str) -> dict[str, Any]:
        role = {} if self.begun else {"role": "assistant"}
        self.begun = True
        return {"choices": [{"index": 0, "delta": {**role, "content": text}, "finish_reason": None}]}

    def _end(self, reply: CallReply) -> list[dict[str, Any]]:
        delta = {} if self.begun else {"role": "assistant", "content": ""}
        finish = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
        return [finish, {"choices": [], "usage": _usage(reply)}] if self.counts else [finish]


def _event(data: bytes) -> bytes:
    return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"


def _document(round_: Round, reply: CallReply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text}
    return {
        **_frame(round_, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _usage(reply),
    }


def _usage(reply: CallReply) -> dict[str, int]:
    read, written = reply.usage.input_tokens, reply.usage.output_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _frame(round_: Round, kind: str) -> dict[str, Any]:
    decision_id = round_.last.id if round_.last else ""
    agent = round_.last.agent if round_.last else "auto"
    created = round_.runtime.ledger.time_us // 1_000_000
    return {"id": f"chatcmpl-{decision_id}", "object": kind, "created": created, "model": agent}


def _headers(request: Request, round_: Round) -> dict[str, str]:
    """Headers about the round; the overhead is the time spent in the service, all but waiting for agents."""
    elapsed_s = time.perf_counter() - request.started - round_.waited_s
    return {**round_.headers(), "x-bot-orch-overhead-ms": f"{max(0.0, 1e3 * elapsed_s):.2f}"}
