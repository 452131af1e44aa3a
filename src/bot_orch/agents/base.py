"""Requests, replies and failures that every kind of agent shares."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from bot_orch.agents.endings import Ending
from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.types import Measure, Outcome, check_reward

__all__ = ["AgentRunner", "Attempt", "CallFailure", "CallReply", "CallRequest", "Chunk", "Usage"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CallRequest:
    """One piece of work for one agent.

    Parameters
    ----------
    id
        The caller's name for the request; jitter and simulated draws are keyed by it.
    text
        The task as plain text.
    messages
        The task as a chat; made from ``text`` if empty.
    params
        Further settings for the agent (``temperature``, ``max_tokens``, ...), passed on as they are.
    deadline_s
        How long the *caller* will wait, in seconds from now; ``None`` for as long as the agent's own timeouts allow.
    stream
        Whether the caller wants the answer piece by piece.

    Examples
    --------
    >>> CallRequest("r-1", text="2 + 2?").chat()
    ({'role': 'user', 'content': '2 + 2?'},)
    """

    id: str
    text: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()
    params: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    deadline_s: float | None = None
    stream: bool = False

    def __post_init__(self) -> None:
        if self.deadline_s is not None and not (math.isfinite(self.deadline_s) and self.deadline_s > 0):
            raise InvalidInputError("deadline_s", f"is {self.deadline_s}", "pass seconds, more than zero, or None")

    def chat(self) -> tuple[Mapping[str, Any], ...]:
        """The messages, or the text as one user message."""
        return self.messages or ({"role": "user", "content": self.text},)

    def plain(self) -> str:
        """The text, or the contents of the messages, one per line."""
        return self.text or "\n".join(str(message.get("content") or "") for message in self.messages)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens counted by the agent; zero where it does not count."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at one agent, as the log keeps it. A call with retries has several."""

    agent: str
    request_id: str
    number: int
    ending: Ending
    elapsed_s: float
    first_byte_s: float | None = None
    status: int | None = None
    usage: Usage = Usage()
    cost_usd: float = 0.0

    def outcome(self, reward: float | None = None) -> Outcome | None:
        """What to learn from it; ``None`` if the agent was never asked."""
        return _outcome(self.ending, self.elapsed_s, reward)


@dataclass(frozen=True, slots=True)
class CallReply:
    """A whole answer.

    Parameters
    ----------
    text
        The answer as text.
    output
        The answer as a JSON value, where it is more than text.
    usage, cost_usd
        Tokens, and what they cost at the agent's price.
    elapsed_s, first_byte_s
        Time spent waiting for the agent, in all and until its first byte (of a stream: the first piece with a part of
        the answer in it); a slow reader of a stream is not charged to the agent.
    status
        HTTP status, where there is one.
    raw
        The upstream JSON document as received, for a gateway that passes it on.
    extra
        What the agent says about itself (a simulated agent: ``reward``, ``quality``, ``label``).
    attempts
        Every try this answer took, the last one included.
    reward, measure
        What the answer earned in [0, 1], and what it was as a measure. Only code of the operator's own can say so here
        (a Python function, a simulated agent's judge): what a program or an endpoint sends never sets its own reward.
    """

    text: str = ""
    output: Any = None
    usage: Usage = Usage()
    cost_usd: float = 0.0
    elapsed_s: float = 0.0
    first_byte_s: float | None = None
    status: int | None = None
    raw: bytes | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    attempts: tuple[Attempt, ...] = ()
    reward: float | None = None
    measure: Measure | None = None

    def __post_init__(self) -> None:
        if self.reward is not None:
            check_reward(self.reward)
        if self.measure is not None and not isinstance(self.measure, Measure):
            raise InvalidInputError("reply.measure", "is no measure", "pass Labels, Samples, ... of bot_orch.transport")

    def outcome(self, reward: float | None = None) -> Outcome:
        """The completed outcome, with the reward once somebody has judged the answer."""
        reward = self.reward if reward is None else reward
        return Outcome.completed(reward, elapsed_s=self.elapsed_s, output=self.measure)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed answer. The last one carries the whole ``reply``; a stream without it raised.

    Parameters
    ----------
    text
        What it adds to the answer's text.
    raw
        An OpenAI-compatible event's JSON as received, for a gateway that passes it on. Such events bring their own
        role, finish reasons and token counts; ``None`` for a piece that is only text.
    reply
        The whole answer, in the last piece.
    more
        Whether ``raw`` holds a part of the answer beside ``text``: a tool call, a finish reason, another choice.

    Examples
    --------
    >>> Chunk("").begins, Chunk("yes").begins, Chunk(raw=b"{...}", more=True).begins
    (False, True, True)
    """

    text: str = ""
    raw: bytes | None = None
    reply: CallReply | None = None
    more: bool = False

    @property
    def begins(self) -> bool:
        """Whether an answer has begun with it: a role or an empty text alone promises nothing."""
        return bool(self.text) or self.more or self.reply is not None


class CallFailure(BotOrchError):  # noqa: N818  an attempt that ended without an answer is not always an error
    """A call ended without a whole answer.

    Parameters
    ----------
    ending
        The label: how it ended; ``ending.meaning`` says what to learn from it.
    message
        For people and logs; never holds the prompt, the answer or a secret.
    started
        Whether the agent may have begun the work; if not, asking again is always safe.
    raw
        The first kilobytes of an upstream's error document, for the caller only; it may quote the prompt.
    """

    def __init__(
        self,
        ending: Ending,
        message: str = "",
        *,
        started: bool = True,
        status: int | None = None,
        retry_after_s: float | None = None,
        elapsed_s: float = 0.0,
        first_byte_s: float | None = None,
        raw: bytes | None = None,
        attempts: tuple[Attempt, ...] = (),
    ) -> None:
        super().__init__(f"{ending}: {message or ending.meaning.what}")
        self.ending = ending
        self.started = started and ending.meaning.attempted
        self.status = status
        self.retry_after_s = retry_after_s
        self.elapsed_s = elapsed_s
        self.first_byte_s = first_byte_s
        self.raw = raw
        self.attempts = attempts

    def outcome(self) -> Outcome | None:
        """What to learn from it: censored or failed, by ``reason``; ``None`` if the agent was never asked."""
        return _outcome(self.ending, self.elapsed_s, None)


@runtime_checkable
class AgentRunner(Protocol):
    """Asks one agent. Raises :class:`CallFailure`, and ``asyncio.CancelledError`` where the caller cancels.

    Close a stream that is not read to its end (``contextlib.aclosing``), so that the agent is told at once.
    """

    async def call(self, request: CallRequest) -> CallReply:
        """The whole answer."""
        ...

    def stream(self, request: CallRequest) -> AsyncGenerator[Chunk, None]:
        """The answer piece by piece; the last piece carries the reply."""
        ...

    async def close(self) -> None:
        """Close connections and processes; calls in progress end."""
        ...


def _outcome(ending: Ending, elapsed_s: float, reward: float | None) -> Outcome | None:
    if not ending.meaning.attempted:
        return None
    if ending is Ending.COMPLETED:
        return Outcome.completed(reward, elapsed_s=elapsed_s)
    return Outcome.censored(elapsed_s=elapsed_s, reason=ending.meaning.reason)
