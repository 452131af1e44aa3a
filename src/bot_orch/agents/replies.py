"""Reading of answers: strict JSON, values of functions, documents of endpoints, and events of streams, by interface."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from bot_orch.agents.base import CallFailure, CallReply, Chunk, Usage
from bot_orch.agents.endings import Ending
from bot_orch.agents.rejections import ending_of, read_error
from bot_orch.agents.tokens import letters_in, tokens_of
from bot_orch.codec import decode_json

_log = logging.getLogger("bot_orch.agents")
_ERROR_BYTES, _LONGEST_NAME = 16_384, 200
_MOST_SKIPPED = 3  # events of one stream that cannot be read, before the answer counts as malformed

PATHS: Mapping[str, str] = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}
"""Where an interface is, below the base URL."""

_QUIET = frozenset(
    {
        *("response.created", "response.in_progress", "response.queued", "response.output_item.added"),
        *("response.content_part.added", "message_start", "content_block_start", "ping"),
    }
)
_LAST = frozenset({"response.completed", "response.incomplete", "message_stop"})
_INDIVISIBLE = ("tool_calls", "function_call", "refusal", "audio")  # parts of a message that cannot change hands
_FINISHED = {"max_tokens": "length", "max_output_tokens": "length", "tool_use": "tool_calls", "end_turn": "stop"}


def asks_for_counts(params: Mapping[str, Any]) -> bool:
    """Whether the caller wants token counts as the last event of a stream (``stream_options.include_usage``)."""
    options = params.get("stream_options")
    return isinstance(options, Mapping) and bool(options.get("include_usage"))


def load_json(data: bytes | str) -> Any:
    """Parse JSON; raises :class:`CallFailure` (``malformed``) for anything else, including NaN and infinities."""
    try:
        return decode_json(data)
    except ValueError:
        raise CallFailure(Ending.MALFORMED) from None


def reply_from_value(value: Any, status: int | None = None) -> CallReply:
    """The reply of a function: a string, or an object with ``text`` or ``output``, ``usage``, ``extra``.

    Examples
    --------
    >>> reply_from_value({"output": {"label": "bug"}}).text
    '{"label": "bug"}'
    """
    if isinstance(value, CallReply):
        return value
    if isinstance(value, str):
        return CallReply(text=value, status=status)
    if not isinstance(value, Mapping) or not ("text" in value or "output" in value):
        raise CallFailure(Ending.MALFORMED, "the answer has neither text nor output")
    output = value.get("output")
    try:
        text = value["text"] if "text" in value else output if isinstance(output, str) else json.dumps(output)
        extra = dict(value.get("extra") or {})
    except (TypeError, ValueError, RecursionError):
        raise CallFailure(Ending.MALFORMED) from None
    if not isinstance(text, str):
        raise CallFailure(Ending.MALFORMED, "the answer's text is not a string")
    return CallReply(text=text, output=output, usage=usage_from(value.get("usage")), status=status, extra=extra)


def reply_from_completion(data: bytes, status: int) -> CallReply:
    """The reply of an OpenAI-compatible endpoint without streaming."""
    document = load_json(data)
    try:
        message = document["choices"][0]["message"]
        content = message.get("content")
    except (TypeError, KeyError, IndexError, AttributeError):
        raise CallFailure(Ending.MALFORMED, "the answer has no choices", status=status) from None
    text = content if isinstance(content, str) else ""
    usage, made, model = usage_from(document.get("usage")), tool_call_ids(message), _name_of(document)
    extra = {"completion_id": document.get("id"), "finish_reason": document["choices"][0].get("finish_reason")}
    return CallReply(
        text=text, output=message, usage=usage, status=status, raw=data, extra=extra, made=made, model=model
    )


def tool_call_ids(message: Any) -> tuple[str, ...]:
    """Ids of the tool calls in a message, or in a piece of one.

    Examples
    --------
    >>> tool_call_ids({"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function"}, {"index": 1}]})
    ('call_1',)
    """
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    if not isinstance(calls, list):
        return ()
    ids = (call.get("id") for call in calls if isinstance(call, Mapping))
    return tuple(each for each in ids if isinstance(each, str) and each)


def made_in(reply: CallReply) -> tuple[str, ...]:
    """Ids of the tool calls or responses in an answer."""
    if reply.made or reply.raw is None or reply.output is not None or b'"tool_calls"' not in reply.raw:
        return reply.made
    try:
        choices = load_json(reply.raw)["choices"]
        return tuple(each for choice in choices for each in tool_call_ids(choice.get("message")))
    except (CallFailure, TypeError, KeyError, AttributeError):
        return ()


async def in_one_piece(reply: CallReply) -> AsyncGenerator[Chunk, None]:
    """Convert a reply to a stream with a single content chunk; tool calls and finish reasons are kept."""
    event = None if reply.raw is None else _as_event(reply.raw)
    yield Chunk(reply.text, raw=event, more=event is not None)
    yield Chunk(reply=reply)


def _as_event(raw: bytes) -> bytes | None:
    """Convert a chat completion to a single stream event; ``None`` for any other document."""
    try:
        document = load_json(raw)
        choices = [_as_delta(choice) for choice in document["choices"]]
    except (CallFailure, TypeError, KeyError, ValueError, AttributeError):
        return None
    return json.dumps({**document, "object": "chat.completion.chunk", "choices": choices}).encode() if choices else None


def _as_delta(choice: Mapping[str, Any]) -> dict[str, Any]:
    delta = dict(choice["message"])
    calls = delta.get("tool_calls")
    if calls:
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    return {**{name: value for name, value in choice.items() if name != "message"}, "delta": delta}


def usage_from(value: Any) -> Usage:
    """Token counts in the words of OpenAI or Anthropic; else zero.

    OpenAI counts tokens read from a cache among the tokens of the prompt, Anthropic does not.

    Examples
    --------
    >>> usage_from({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 80}})
    Usage(input_tokens=100, output_tokens=5, estimated=False, cached_tokens=80, cache_write_tokens=0)
    >>> usage_from({"input_tokens": 15, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 5}).input_tokens
    100
    """
    if isinstance(value, Usage):
        return value
    if not isinstance(value, Mapping):
        return Usage()
    read = _count(value.get("prompt_tokens", value.get("input_tokens")))
    written = _count(value.get("completion_tokens", value.get("output_tokens")))
    stored = _count(value.get("cache_creation_input_tokens"))
    if "cache_read_input_tokens" in value or "cache_creation_input_tokens" in value:
        cached = _count(value.get("cache_read_input_tokens"))
        inclusive = "prompt_tokens" in value
        read = read if inclusive else read + cached + stored
    else:
        details = value.get("prompt_tokens_details", value.get("input_tokens_details"))
        cached = _count(details.get("cached_tokens")) if isinstance(details, Mapping) else 0
    cached = min(cached, read)
    return Usage(read, written, cached_tokens=cached, cache_write_tokens=min(stored, read - cached))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0


class Accumulator(Protocol):
    """Reads the events of a streamed answer."""

    done: bool

    @property
    def finished(self) -> bool:
        """Whether the answer is complete, although more events may follow."""
        ...

    def add(self, event: bytes) -> Chunk | None:
        """The chunk for one event, or ``None`` to drop it."""
        ...

    def reply(self, status: int) -> CallReply:
        """The complete answer."""
        ...


def read_reply(endpoint: str, data: bytes, status: int) -> CallReply:
    """Parse an answer that was not streamed.

    Examples
    --------
    >>> read_reply("messages", b'{"content": [{"type": "text", "text": "4"}]}', 200).text
    '4'
    """
    if endpoint == "chat":
        return reply_from_completion(data, status)
    document = load_json(data)
    if not isinstance(document, dict):
        raise CallFailure(Ending.MALFORMED, status=status)
    if document.get("status") == "failed":
        raise _failure(document.get("error"))
    try:
        text, made = _READERS[endpoint](document)
    except (TypeError, KeyError, IndexError, AttributeError, ValueError):
        raise CallFailure(Ending.MALFORMED, f"the answer is none of {endpoint}", status=status) from None
    return CallReply(
        text,
        document,
        usage=usage_from(document.get("usage")),
        status=status,
        raw=data,
        endpoint=endpoint,
        made=made,
        extra=_ended(document),
        model=_name_of(document),
    )


def accumulate(endpoint: str, *, counts: bool, prompt_tokens: int) -> Accumulator:
    """The accumulator for the events of an interface."""
    if endpoint == "chat":
        return StreamedAnswer(counts=counts, prompt_tokens=prompt_tokens)
    return _TypedEvents(endpoint, prompt_tokens)


def _name_of(document: Mapping[str, Any]) -> str:
    """The model that an answer names; empty without one."""
    model = document.get("model")
    return model[:_LONGEST_NAME] if isinstance(model, str) else ""


def _ended(document: Mapping[str, Any]) -> dict[str, Any]:
    """Id of an answer, and why it ended in the words of chat completions; empty where they are missing.

    Examples
    --------
    >>> _ended({"id": "msg_1", "stop_reason": "max_tokens"})
    {'completion_id': 'msg_1', 'finish_reason': 'length'}
    """
    choices, details, output = (document.get(name) for name in ("choices", "incomplete_details", "output"))
    said = document.get("stop_reason")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        said = choices[0].get("finish_reason")
    elif isinstance(details, Mapping):
        said = details.get("reason")
    elif isinstance(output, list) and any("call_id" in each for each in output if isinstance(each, Mapping)):
        said = "tool_calls"
    reason = _FINISHED.get(said, said) if isinstance(said, str) else None
    named = {"completion_id": document.get("id"), "finish_reason": reason}
    return {name: value for name, value in named.items() if isinstance(value, str)}


def _response(document: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    said, made = [], [str(document["id"])]
    for item in document["output"]:
        if item["type"] == "message":
            said += [part.get("text", "") for part in item["content"]]
        elif isinstance(called := item.get("call_id"), str):
            made.append(called)
    return "".join(said), tuple(made)


def _message(document: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    blocks = document["content"]
    said = "".join(block["text"] for block in blocks if block["type"] == "text")
    return said, tuple(str(block["id"]) for block in blocks if block["type"] == "tool_use")


_READERS = {"responses": _response, "messages": _message}


class _Events:
    """What the accumulators of all interfaces have in common.

    One event that cannot be read costs a piece of the answer, not the answer: it is skipped and logged, up to three in
    a stream.
    """

    def __init__(self, endpoint: str, prompt_tokens: int) -> None:
        self._endpoint, self._prompt_tokens = endpoint, prompt_tokens
        self._text: list[str] = []
        self._made: list[str] = []
        self._extra: dict[str, Any] = {}
        self._letters = self._skipped = 0
        self._model = ""
        self.done = False

    @property
    def usage(self) -> Usage:
        """Token usage so far."""
        raise NotImplementedError

    def add(self, event: bytes) -> Chunk | None:
        """The chunk for one event; ``None`` for ``[DONE]``, for later events, and for unrequested token counts."""
        self.done = self.done or event.strip() == b"[DONE]"
        if self.done:
            return None
        try:
            document = load_json(event)
            if not isinstance(document, dict):
                raise CallFailure(Ending.MALFORMED, "an event is not an object")
            self._model = self._model or _name_of(document)
            return self._take(document, event)
        except CallFailure as failure:
            self._skipped += 1
            if failure.ending is not Ending.MALFORMED or self._skipped > _MOST_SKIPPED:
                raise
            _log.warning("event skipped", extra={"fields": {"detail": str(failure), "bytes": len(event)}})
            return None

    @property
    def finished(self) -> bool:
        """Whether the answer is complete, although more events may follow."""
        raise NotImplementedError

    def _take(self, document: dict[str, Any], event: bytes) -> Chunk | None:
        raise NotImplementedError

    def _check_complete(self, status: int) -> None:
        """Raise for an answer that stopped before its end."""
        if not (self.done or self.finished):
            raise CallFailure(Ending.MALFORMED if self._skipped else Ending.TRUNCATED_STREAM, status=status)

    def _reply(self, status: int) -> CallReply:
        return CallReply(
            "".join(self._text),
            usage=self.usage,
            status=status,
            extra=self._extra,
            made=tuple(self._made),
            endpoint=self._endpoint,
            model=self._model,
        )


class StreamedAnswer(_Events):
    r"""Accumulator of the events of a chat.

    Events are forwarded as received, with the upstream's ids and finish reasons.

    Parameters
    ----------
    counts
        Whether the caller requested token counts; if not, an event with only token counts is not forwarded.
    prompt_tokens
        Estimated tokens of the request, for a stream whose endpoint does not tell its token counts.

    Examples
    --------
    >>> answer = StreamedAnswer()
    >>> answer.add(b'{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}').begins
    False
    >>> answer.add(b'{"choices": [{"index": 0, "delta": {"content": "4"}, "finish_reason": "stop"}]}').begins
    True
    >>> answer.reply(200).text
    '4'
    """

    def __init__(self, *, counts: bool = False, prompt_tokens: int = 0) -> None:
        super().__init__("chat", prompt_tokens)
        self._counts = counts
        self._told: Usage | None = None
        self._pieces = 0
        self._indivisible = False
        self._seen: set[int] = set()
        self._finished: set[int] = set()

    @property
    def usage(self) -> Usage:
        """Token usage so far: as reported, else estimated with at least one token per piece."""
        written = max(self._pieces, tokens_of(self._letters))
        return self._told or Usage(self._prompt_tokens, written, estimated=True)

    @property
    def finished(self) -> bool:
        """Whether every choice has a finish reason."""
        return bool(self._seen) and self._seen == self._finished

    def reply(self, status: int) -> CallReply:
        """The complete answer; raises ``TRUNCATED_STREAM`` without ``[DONE]`` or a finish reason in every choice."""
        self._check_complete(status)
        if not self._seen:
            raise CallFailure(Ending.MALFORMED, "the answer has no choices", status=status)
        return self._reply(status)

    def _take(self, document: dict[str, Any], event: bytes) -> Chunk | None:
        if document.get("error"):
            raise _failure(document["error"])
        choices = document.get("choices")
        if not isinstance(choices, list):
            raise CallFailure(Ending.MALFORMED, "an event has no choices")
        if counts := document.get("usage"):
            self._told = usage_from(counts)
            if not (choices or self._counts):
                return None
        self._extra.setdefault("completion_id", document.get("id"))
        read = [self._read(choice) for choice in choices]
        return Chunk(
            "".join(text for text, _ in read),
            raw=event,
            more=any(more for _, more in read),
            usage=self.usage,
            endpoint=self._endpoint,
            indivisible=self._indivisible or len(self._seen) > 1,
        )

    def _read(self, choice: Any) -> tuple[str, bool]:
        """Text of one choice (only the first), and whether the choice has content."""
        index = choice.get("index") or 0 if isinstance(choice, dict) else None
        if not isinstance(index, int):
            raise CallFailure(Ending.MALFORMED, "a choice is not an object with a number")
        self._seen.add(index)
        finished = bool(choice.get("finish_reason"))  # some endpoints write "" until the end
        if finished:
            self._finished.add(index)
            if index == 0:
                self._extra["finish_reason"] = choice["finish_reason"]
        delta = choice.get("delta")
        delta = delta if isinstance(delta, Mapping) else {}
        content = delta.get("content")
        text = content if index == 0 and isinstance(content, str) else ""
        self._text.append(text)
        self._made += tool_call_ids(delta)
        self._indivisible = self._indivisible or any(delta.get(name) for name in _INDIVISIBLE)
        letters = letters_in(delta)
        self._letters += letters
        self._pieces += letters > 0
        return text, finished or any(value for name, value in delta.items() if name != "role")


class _TypedEvents(_Events):
    """Events with a ``type``: those of OpenAI's Responses and of Anthropic's Messages."""

    def __init__(self, endpoint: str, prompt_tokens: int) -> None:
        super().__init__(endpoint, prompt_tokens)
        self._counts: dict[str, Any] = {}

    @property
    def usage(self) -> Usage:
        """Token usage so far: as reported at the end, else estimated."""
        usage = usage_from(self._counts)
        if self.done and self._counts:
            return usage
        read = usage if usage.input_tokens else Usage(self._prompt_tokens)
        return replace(read, output_tokens=tokens_of(self._letters), estimated=True)

    @property
    def finished(self) -> bool:
        """Whether the last event has come."""
        return self.done

    def reply(self, status: int) -> CallReply:
        """The complete answer; raises ``TRUNCATED_STREAM`` without its last event."""
        self._check_complete(status)
        return self._reply(status)

    def _take(self, document: dict[str, Any], event: bytes) -> Chunk | None:
        kind = document.get("type")
        if not isinstance(kind, str):
            raise CallFailure(Ending.MALFORMED, "an event has no type")
        if kind in ("error", "response.failed"):
            raise _failure(document.get("error") or (document.get("response") or {}).get("error") or document)
        self.done = kind in _LAST
        try:
            text = self._read(kind, document)
        except (TypeError, KeyError, AttributeError):
            raise CallFailure(Ending.MALFORMED, f"an event {kind} is not as it should be") from None
        self._text.append(text)
        return Chunk(
            text,
            raw=event,
            more=kind not in _QUIET,
            usage=self.usage,
            endpoint=self._endpoint,
            indivisible=bool(self._made),
        )

    def _read(self, kind: str, document: Mapping[str, Any]) -> str:
        if kind == "response.output_text.delta":
            return self._said(document["delta"])
        if kind in ("response.function_call_arguments.delta", "response.reasoning_summary_text.delta"):
            self._said(document["delta"])
        elif kind in _LAST and "response" in document:
            self._count(document["response"].get("usage"))
            self._made += _response(document["response"])[1]
            self._extra |= _ended(document["response"])
            self._model = self._model or _name_of(document["response"])
        elif kind == "message_start":
            self._count(document["message"].get("usage"))
            self._extra |= _ended(document["message"])
            self._model = self._model or _name_of(document["message"])
        elif kind == "message_delta":
            self._count(document.get("usage"))
            self._extra |= _ended(document.get("delta") or {})
        elif kind == "content_block_start" and document["content_block"]["type"] == "tool_use":
            self._made.append(document["content_block"]["id"])
        elif kind == "content_block_delta":
            delta = document["delta"]
            said = self._said(delta.get("text") or delta.get("partial_json") or delta.get("thinking") or "")
            return said if "text" in delta else ""
        return ""

    def _said(self, text: str) -> str:
        self._letters += len(text)
        return text

    def _count(self, usage: Any) -> None:
        if isinstance(usage, Mapping):
            self._counts |= {name: value for name, value in usage.items() if value is not None}


def _failure(error: Any) -> CallFailure:
    raw = json.dumps({"error": error}).encode()
    read = read_error(raw)
    status = read.status if read is not None else None
    ending = Ending.UPSTREAM_5XX if read is None else ending_of(status or 500, read)
    return CallFailure(ending, "the endpoint reports an error", status=status, raw=raw[:_ERROR_BYTES])
