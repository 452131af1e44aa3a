"""Implicit signals: an answer that was empty or cut off, requested again, or whose tool call failed."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import msgspec

from bot_orch.errors import InvalidInputError
from bot_orch.service.judges.answer import AnswerGiven

_ERROR = re.compile(r"\s*(error|exception|traceback|failed|failure)\b", re.IGNORECASE)
_FLAGS = ("error", "is_error", "isError")
_encode = msgspec.json.Encoder(order="sorted").encode
Sink = Callable[[AnswerGiven, float, bool], None]


@dataclass(frozen=True, slots=True)
class ImplicitSettings:
    """Values of the signals; None ignores a signal.

    Parameters
    ----------
    window_s
        How long after an answer its signals count.
    good
        The value if the window passes without a signal: a default reward, see ``docs/how-to/judges.md``.
    retried
        The same conversation was sent again by the same user.
    empty, truncated
        The answer has neither text nor tool calls; it ended with ``finish_reason: length``.
    tool_failed
        The next turn reports that a tool call of the answer failed.
    """

    window_s: float = 60.0
    _: KW_ONLY
    good: float | None = 1.0
    retried: float | None = 0.0
    empty: float | None = 0.0
    truncated: float | None = 0.3
    tool_failed: float | None = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.window_s <= 86_400:
            raise InvalidInputError("window_s", f"is {self.window_s}", "set seconds, from 0 to 86400")
        for name in ("good", "retried", "empty", "truncated", "tool_failed"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InvalidInputError(name, f"is {value}", "set a number from 0 to 1, or null")


@dataclass(slots=True)
class _Waiting:
    answer: AnswerGiven
    until_s: float
    said: bool = False


class ImplicitJudge:
    """Watches chats. Conversations are kept as digests for ``window_s``, in memory only.

    Parameters
    ----------
    settings
        The values.
    sink
        Takes an answer without its texts, its value, and whether that stands for the absence of signals.
    most
        How many answers are watched at once; beyond, the oldest is judged as if its window had passed.
    """

    def __init__(self, settings: ImplicitSettings, sink: Sink, most: int = 10_000) -> None:
        self.settings, self._sink, self._most = settings, sink, most
        self._waiting: OrderedDict[bytes, _Waiting] = OrderedDict()  # by the end of the window

    def __len__(self) -> int:
        return len(self._waiting)

    def hear(self, answer: AnswerGiven, now_s: float) -> None:
        """Evaluate the signals that a request gives about earlier answers of its conversation."""
        if not answer.messages:
            return
        self.pass_time(now_s)
        digests = _digests(answer)
        again = self._waiting.pop(digests[len(answer.messages)], None)
        if again is not None:
            self._say(again, self.settings.retried)
        turn = max((i for i, each in enumerate(answer.messages) if each.get("role") == "assistant"), default=None)
        before = None if turn is None else self._waiting.get(digests[turn])
        if before is not None and turn is not None and _tool_failed(answer.messages[turn + 1 :]):
            self._say(before, self.settings.tool_failed)

    def watch(self, answer: AnswerGiven, now_s: float) -> None:
        """Judge an answer by itself, and watch for signals about it."""
        if not answer.messages:
            return
        kept = replace(answer, question="", messages=(), params={}, text="")  # the digest below stands for them
        waiting = _Waiting(kept, now_s + self.settings.window_s)
        if not answer.text.strip() and answer.finish_reason not in ("tool_calls", "function_call"):
            self._say(waiting, self.settings.empty)
        elif answer.finish_reason == "length":
            self._say(waiting, self.settings.truncated)
        self._waiting[_digests(answer)[len(answer.messages)]] = waiting
        if len(self._waiting) > self._most:
            self._pass(next(iter(self._waiting)))

    def pass_time(self, now_s: float) -> None:
        """Judge the answers whose window has passed."""
        while self._waiting:
            key = next(iter(self._waiting))
            if self._waiting[key].until_s > now_s:
                return
            self._pass(key)

    def _pass(self, key: bytes) -> None:
        waiting = self._waiting.pop(key)
        if not waiting.said:
            self._say(waiting, self.settings.good, silent=True)

    def _say(self, waiting: _Waiting, value: float | None, *, silent: bool = False) -> None:
        if value is not None:
            waiting.said = True
            self._sink(waiting.answer, value, silent)


def _digests(answer: AnswerGiven) -> list[bytes]:
    """Digests of the prefixes of a user's conversation: item ``n`` covers the first ``n`` messages."""
    caller = f"{answer.token}\0{answer.params.get('user', '')}"
    running = hashlib.blake2b(caller.encode(), digest_size=16)
    found = [running.digest()]
    for message in answer.messages:
        running.update(_encode(message) + b"\n")
        found.append(running.digest())
    return found


def _tool_failed(messages: Sequence[Mapping[str, Any]]) -> bool:
    return any(_is_error(text) for message in messages if message.get("role") == "tool" for text in _texts(message))


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def _is_error(text: str) -> bool:
    """Whether a tool result reports a failure: a JSON object with an error, or text that starts like one."""
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return _ERROR.match(text) is not None
    return isinstance(document, dict) and any(document.get(flag) for flag in _FLAGS)
