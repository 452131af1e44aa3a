"""Answers of interfaces other than chat: completions, responses, embeddings and messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from bot_orch.agents.base import CallFailure, CallReply, Chunk, Usage
from bot_orch.agents.endings import Ending
from bot_orch.agents.kinds.streamed import StreamedAnswer
from bot_orch.agents.rejections import ending_of, read_error
from bot_orch.agents.replies import load_json, reply_from_completion, usage_from
from bot_orch.agents.tokens import tokens_of

__all__ = ["PATHS", "Accumulator", "accumulate", "read_reply"]

PATHS: Mapping[str, str] = {
    "chat": "/chat/completions",
    "completions": "/completions",
    "responses": "/responses",
    "embeddings": "/embeddings",
    "messages": "/messages",
}
"""Where an interface is, below the base URL."""

_QUIET = frozenset(
    {
        *("response.created", "response.in_progress", "response.queued", "response.output_item.added"),
        *("response.content_part.added", "message_start", "content_block_start", "ping"),
    }
)
_LAST = frozenset({"response.completed", "response.incomplete", "message_stop"})


class Accumulator(Protocol):
    """Reads the events of a streamed answer."""

    done: bool

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
    >>> read_reply("completions", b'{"choices": [{"text": "4"}], "usage": {"prompt_tokens": 3}}', 200).text
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
    usage, extra = usage_from(document.get("usage")), _ended(document)
    return CallReply(text, document, usage=usage, status=status, raw=data, endpoint=endpoint, made=made, extra=extra)


def accumulate(endpoint: str, *, counts: bool, prompt_tokens: int) -> Accumulator:
    """The accumulator for the events of an interface."""
    if endpoint == "chat":
        return StreamedAnswer(counts=counts, prompt_tokens=prompt_tokens)
    if endpoint == "completions":
        return _Completions(counts=counts, prompt_tokens=prompt_tokens)
    return _TypedEvents(endpoint, prompt_tokens)


_FINISHED = {"max_tokens": "length", "max_output_tokens": "length", "tool_use": "tool_calls", "end_turn": "stop"}


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


def _embeddings(document: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    _ = [each["embedding"] for each in document["data"]]
    return "", ()


def _completion(document: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    return str(document["choices"][0]["text"]), ()


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


_READERS = {"embeddings": _embeddings, "completions": _completion, "responses": _response, "messages": _message}


class _Completions:
    """Events of legacy completions: choices with texts, and ``[DONE]``."""

    def __init__(self, *, counts: bool, prompt_tokens: int) -> None:
        self._counts, self._prompt_tokens = counts, prompt_tokens
        self._text: list[str] = []
        self._told: Usage | None = None
        self._seen: set[int] = set()
        self._finished: set[int] = set()
        self._extra: dict[str, Any] = {}
        self._letters = 0
        self.done = False

    def add(self, event: bytes) -> Chunk | None:
        self.done = self.done or event.strip() == b"[DONE]"
        if self.done:
            return None
        document = load_json(event)
        if not isinstance(document, dict) or not isinstance(choices := document.get("choices"), list):
            if isinstance(document, dict) and document.get("error"):
                raise _failure(document["error"])
            raise CallFailure(Ending.MALFORMED, "an event has no choices")
        if document.get("usage"):
            self._told = usage_from(document["usage"])
            if not (choices or self._counts):
                return None
        text, more = "", False
        self._extra |= _ended(document)
        for choice in choices:
            index, said = choice.get("index") or 0, choice.get("text") or ""
            self._seen.add(index)
            if choice.get("finish_reason"):
                self._finished.add(index)
                more = True
            more = more or bool(said)
            self._letters += len(said)
            text += said if index == 0 else ""
        self._text.append(text)
        return Chunk(text, raw=event, more=more, usage=self._usage, endpoint="completions")

    def reply(self, status: int) -> CallReply:
        if not (self.done or (self._seen and self._seen == self._finished)):
            raise CallFailure(Ending.TRUNCATED_STREAM, status=status)
        return CallReply(
            "".join(self._text), usage=self._usage, status=status, endpoint="completions", extra=self._extra
        )

    @property
    def _usage(self) -> Usage:
        return self._told or Usage(self._prompt_tokens, tokens_of(self._letters), estimated=True)


class _TypedEvents:
    """Events with a ``type``: those of OpenAI's Responses and of Anthropic's Messages."""

    def __init__(self, endpoint: str, prompt_tokens: int) -> None:
        self._endpoint, self._prompt_tokens = endpoint, prompt_tokens
        self._text: list[str] = []
        self._made: list[str] = []
        self._counts: dict[str, Any] = {}
        self._extra: dict[str, Any] = {}
        self._letters = 0
        self.done = False

    def add(self, event: bytes) -> Chunk | None:
        document = load_json(event)
        kind = document.get("type") if isinstance(document, dict) else None
        if not isinstance(kind, str):
            raise CallFailure(Ending.MALFORMED, "an event has no type")
        if kind in ("error", "response.failed"):
            raise _failure(document.get("error") or (document.get("response") or {}).get("error") or document)
        self.done = self.done or kind in _LAST
        try:
            text = self._read(kind, document)
        except (TypeError, KeyError, AttributeError):
            raise CallFailure(Ending.MALFORMED, f"an event {kind} is not as it should be") from None
        self._text.append(text)
        return Chunk(text, raw=event, more=kind not in _QUIET, usage=self._usage, endpoint=self._endpoint)

    def reply(self, status: int) -> CallReply:
        if not self.done:
            raise CallFailure(Ending.TRUNCATED_STREAM, status=status)
        said, made = "".join(self._text), tuple(self._made)
        return CallReply(said, usage=self._usage, status=status, endpoint=self._endpoint, made=made, extra=self._extra)

    def _read(self, kind: str, document: Mapping[str, Any]) -> str:
        if kind == "response.output_text.delta":
            return self._said(document["delta"])
        if kind in ("response.function_call_arguments.delta", "response.reasoning_summary_text.delta"):
            self._said(document["delta"])
        elif kind in _LAST and "response" in document:
            self._count(document["response"].get("usage"))
            self._made += _response(document["response"])[1]
            self._extra |= _ended(document["response"])
        elif kind == "message_start":
            self._count(document["message"].get("usage"))
            self._extra |= _ended(document["message"])
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

    @property
    def _usage(self) -> Usage:
        usage = usage_from(self._counts)
        if self.done and self._counts:
            return usage
        return Usage(usage.input_tokens or self._prompt_tokens, tokens_of(self._letters), estimated=True)


def _failure(error: Any) -> CallFailure:
    raw = json.dumps({"error": error}).encode()
    read = read_error(raw)
    status = read.status if read is not None else None
    ending = Ending.UPSTREAM_5XX if read is None else ending_of(status or 500, read)
    return CallFailure(ending, "the endpoint reports an error", status=status, raw=raw[:16_384])
