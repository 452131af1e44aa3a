"""Requests, replies and failures common to all kinds of agents."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from bot_orch.agents.endings import Ending
from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.types import Measure, Outcome, check_reward

BETA = "anthropic-beta"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(slots=True)
class AgentMeter:
    """Seconds spent waiting for agents, over all attempts of a round; waits for a slot and pauses do not count."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A request to one agent.

    Parameters
    ----------
    id
        The caller's identifier; it also keys jitter and simulated draws.
    text
        The task as plain text.
    messages
        The task as chat messages; built from ``text`` if empty.
    params
        Further parameters (``temperature``, ``max_tokens``, ...), passed to the agent unchanged.
    deadline_s
        The *caller's* deadline, in seconds from now; ``None`` leaves only the agent's own timeouts.
    stream
        Whether the caller wants a streamed answer.
    headers
        Headers of the caller (``traceparent``, ``x-request-id``, ``anthropic-beta``), passed on to endpoints.
    endpoint, document
        The interface that was asked and the request as it came, for agents that speak it themselves.
    most_calls
        Most attempts for this request; ``None`` leaves it to the agent's ``retry.tries``.
    elsewhere
        Whether another agent may serve the request; then one that asks to slow down is not waited for.
    meter
        Adds up the time that the agent takes.
    carrier
        Makes the call in the runner's place: the process that took the request, for a guard in another one. Timeouts
        and times are the carrier's; admission, retries and the circuit breaker stay with the guard.

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
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    most_calls: int | None = None
    endpoint: str = "chat"
    document: Mapping[str, Any] | None = None
    elsewhere: Callable[[], bool] | None = field(default=None, compare=False, repr=False)
    meter: AgentMeter | None = field(default=None, compare=False, repr=False)
    carrier: AgentRunner | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.deadline_s is not None and not (math.isfinite(self.deadline_s) and self.deadline_s > 0):
            raise InvalidInputError("deadline_s", f"is {self.deadline_s}", "pass seconds, more than zero, or None")

    def chat(self) -> tuple[Mapping[str, Any], ...]:
        """The messages, or the text as one user message."""
        return self.messages or ({"role": "user", "content": self.text},)

    def plain(self) -> str:
        """The text, or the texts of the messages, one per line; an image is ``[image_url]``."""
        return self.text or "\n".join(_text_of(message.get("content")) for message in self.messages)


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts reported by the agent, or ``estimated`` from what was sent and received; else zero.

    Parameters
    ----------
    input_tokens, output_tokens
        Of the whole prompt, and of the answer.
    estimated
        Whether they are not as reported.
    cached_tokens, cache_write_tokens
        Of the prompt: tokens read from the provider's cache, and tokens stored in it at a price.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    _: KW_ONLY
    cached_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at calling one agent, as logged. A call with retries has several.

    ``passed_over``: one endpoint of the agent failed and the next one was asked, in the same call.
    """

    agent: str
    request_id: str
    number: int
    _: KW_ONLY
    ending: Ending
    elapsed_s: float
    first_byte_s: float | None = None
    status: int | None = None
    usage: Usage = Usage()
    cost_usd: float = 0.0
    passed_over: bool = False

    def outcome(self, reward: float | None = None) -> Outcome | None:
        """The outcome to learn from; ``None`` if the agent was not called."""
        return _outcome(self.ending, self.elapsed_s, reward)


@dataclass(frozen=True, slots=True)
class CallReply:
    """A complete answer.

    Parameters
    ----------
    text
        The answer as text.
    output
        The answer as a JSON value, if it is more than text.
    usage, cost_usd
        Token counts, and their cost at the agent's price.
    elapsed_s, first_byte_s
        Time spent waiting for the agent, in total and until its first byte (for a stream: the first chunk with
        content). The time of a slow reader of a stream does not count.
    status
        HTTP status, if any.
    raw
        The upstream JSON document as received, for a gateway to forward.
    extra
        Additional data from the agent (a simulated agent: ``reward``, ``quality``, ``label``).
    attempts
        All attempts for this answer, including the last.
    endpoint
        The interface whose answer ``raw`` is: a chat completion unless the agent was asked by another one.
    made
        Ids in the answer that later requests may refer to: tool calls, a response.
    reward, measure
        Reward from 0 to 1, whatever range the router's rewards have, and the answer as a measure. Only the operator's
        own code sets them (a Python function, a simulated agent's judge); an endpoint never sets its own reward.
    model
        The model that the endpoint says has answered; empty if it does not say.
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
    made: tuple[str, ...] = ()
    endpoint: str = "chat"
    model: str = ""

    def __post_init__(self) -> None:
        if self.reward is not None:
            object.__setattr__(self, "reward", check_reward(self.reward))
        if self.measure is not None and not isinstance(self.measure, Measure):
            raise InvalidInputError("reply.measure", "is no measure", "pass Labels, Samples, ... of bot_orch.transport")

    def outcome(self, reward: float | None = None) -> Outcome:
        """The completed outcome, with the given reward or that of the reply."""
        reward = self.reward if reward is None else reward
        return Outcome.completed(reward, elapsed_s=self.elapsed_s, output=self.measure)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a streamed answer. The last one has the complete ``reply``; a stream without it raised an error.

    Parameters
    ----------
    text
        Text to append to the answer.
    raw
        JSON of an OpenAI-compatible event as received, for a gateway to forward. Such events include
        role, finish reasons and token counts; ``None`` for a chunk with only text.
    reply
        The complete answer, in the last chunk.
    more
        Whether ``raw`` has content other than ``text``: a tool call, a finish reason, another choice.
    usage
        Tokens used up to this chunk, if the runner knows or can estimate them: the usage of a stream that is cut here.
    endpoint
        The interface whose event ``raw`` is, as in :class:`CallReply`.
    indivisible
        Whether it has something that no other agent can continue or repeat: a tool call, or a second choice.

    Examples
    --------
    >>> Chunk("").begins, Chunk("yes").begins, Chunk(raw=b"{...}", more=True).begins
    (False, True, True)
    """

    text: str = ""
    raw: bytes | None = None
    reply: CallReply | None = None
    more: bool = False
    usage: Usage | None = None
    endpoint: str = "chat"
    indivisible: bool = False

    @property
    def begins(self) -> bool:
        """Whether the chunk has content; a role or an empty text alone does not count."""
        return bool(self.text) or self.more or self.reply is not None


class CallFailure(BotOrchError):  # noqa: N818  an attempt without an answer is not always an error
    """A call ended without a complete answer.

    Parameters
    ----------
    ending
        How it ended; ``ending.meaning`` defines its effect on learning.
    message
        Text for people and logs; it never contains the prompt, the answer or a secret.
    started
        Whether the agent may have started the work; if not, a retry is always safe.
    raw
        The first kilobytes of the upstream error document, for the caller only; it may quote the prompt.
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
        """The outcome to learn from, censored or failed by ``reason``; ``None`` if the agent was not called."""
        return _outcome(self.ending, self.elapsed_s, None)


@runtime_checkable
class AgentRunner(Protocol):
    """Calls one agent. Raises :class:`CallFailure`, and ``asyncio.CancelledError`` if the caller cancels.

    Close a stream that is not read to its end (``contextlib.aclosing``), so that the agent is cancelled at once.
    An attribute ``streams = False`` says that answers always come in one piece: no first byte is expected early.
    """

    async def call(self, request: CallRequest) -> CallReply:
        """Call the agent and return the complete answer."""
        ...

    def stream(self, request: CallRequest) -> AsyncGenerator[Chunk, None]:
        """Stream the answer; the last chunk has the reply."""
        ...

    async def close(self) -> None:
        """Close connections and processes; calls in progress end."""
        ...


def _text_of(content: Any) -> str:
    """The text of a message, or of its parts."""
    if not isinstance(content, list | tuple):
        return str(content or "")
    texts = [part.get("text", f"[{part.get('type')}]") if isinstance(part, Mapping) else part for part in content]
    return "\n".join(text for text in texts if isinstance(text, str))


def _outcome(ending: Ending, elapsed_s: float, reward: float | None) -> Outcome | None:
    if not ending.meaning.attempted:
        return None
    if ending is Ending.COMPLETED:
        return Outcome.completed(reward, elapsed_s=elapsed_s)
    return Outcome.censored(elapsed_s=elapsed_s, reason=ending.meaning.reason)
