"""Accumulation of a streamed chat completion from its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot_orch.agents.base import CallFailure, CallReply, Chunk, Usage
from bot_orch.agents.endings import Ending
from bot_orch.agents.rejections import ending_of, read_error
from bot_orch.agents.replies import load_json, tool_call_ids, usage_from
from bot_orch.agents.tokens import letters_in, tokens_of

__all__ = ["StreamedAnswer", "asks_for_counts"]

_ERROR_BYTES = 16_384


def asks_for_counts(params: Mapping[str, Any]) -> bool:
    """Whether the caller wants token counts as the last event of a stream (``stream_options.include_usage``)."""
    options = params.get("stream_options")
    return isinstance(options, Mapping) and bool(options.get("include_usage"))


class StreamedAnswer:
    r"""Accumulator of a streamed answer. Events are forwarded as received, with the upstream's ids and finish reasons.

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
        self._counts = counts
        self._text: list[str] = []
        self._made: list[str] = []
        self._told: Usage | None = None
        self._prompt_tokens, self._pieces, self._letters = prompt_tokens, 0, 0
        self._seen: set[int] = set()
        self._finished: set[int] = set()
        self._extra: dict[str, Any] = {}
        self.done = False

    @property
    def usage(self) -> Usage:
        """Token usage so far: as reported, else estimated with at least one token per piece."""
        written = max(self._pieces, tokens_of(self._letters))
        return self._told or Usage(self._prompt_tokens, written, estimated=True)

    def add(self, event: bytes) -> Chunk | None:
        """The chunk for one event; ``None`` for ``[DONE]``, for later events, and for unrequested token counts."""
        self.done = self.done or event.strip() == b"[DONE]"
        if self.done:
            return None
        document = load_json(event)
        if not isinstance(document, dict):
            raise CallFailure(Ending.MALFORMED)
        if document.get("error"):
            raise _failure(event)
        choices = document.get("choices")
        if not isinstance(choices, list):
            raise CallFailure(Ending.MALFORMED, "an event has no choices")
        counts = document.get("usage")
        if counts:
            self._told = usage_from(counts)
            if not (choices or self._counts):
                return None
        self._extra.setdefault("completion_id", document.get("id"))
        begun = [self._read(choice) for choice in choices]
        text, more = "".join(text for text, _ in begun), any(more for _, more in begun)
        return Chunk(text, raw=event, more=more, usage=self.usage)

    def reply(self, status: int) -> CallReply:
        """The complete answer; raises ``TRUNCATED_STREAM`` without ``[DONE]`` or a finish reason in every choice."""
        if not (self.done or (self._seen and self._seen == self._finished)):
            raise CallFailure(Ending.TRUNCATED_STREAM, status=status)
        if not self._seen:
            raise CallFailure(Ending.MALFORMED, "the answer has no choices", status=status)
        made = tuple(self._made)
        return CallReply("".join(self._text), usage=self.usage, status=status, extra=self._extra, made=made)

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
        letters = letters_in(delta)
        self._letters += letters
        self._pieces += letters > 0
        return text, finished or any(value for name, value in delta.items() if name != "role")


def _failure(event: bytes) -> CallFailure:
    """The failure that an ``error`` event reports."""
    error = read_error(event)
    status = error.status if error is not None else None
    ending = Ending.UPSTREAM_5XX if error is None else ending_of(status or 500, error)
    return CallFailure(ending, "an error inside the stream", status=status, raw=event[:_ERROR_BYTES])
