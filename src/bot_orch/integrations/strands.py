"""Strands Agents: a routing strategy that chooses the model of an invocation, also after failures, and learns."""

from __future__ import annotations

import sys
from asyncio import CancelledError
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.integrations.adapter import Adapter, Turn
from bot_orch.router import Router
from bot_orch.types import Task

try:
    from strands.hooks import AfterInvocationEvent, AfterModelCallEvent
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the Strands adapter", "strands") from _error

__all__ = ["LearnedStrategy"]


@dataclass
class _RoutedInvocation:
    turn: Turn
    tokens: tuple[int, int] = (0, 0)
    error: BaseException | None = None


class LearnedStrategy(Adapter):
    """Chooses among the named candidates of a ``ModelRouter``; failed ones are not tried again in the round.

    It is the strategy of the model router and a hook of the agent, one object per agent:

    >>> strategy = LearnedStrategy(Router(["small", "large"]))  # doctest: +SKIP
    >>> agent = Agent(model=ModelRouter(candidates, strategy=strategy), hooks=[strategy])  # doctest: +SKIP

    ``judge(task, result)`` rates the agent's result; :meth:`feedback` takes
    ``result.state["bot_orch"]["decision_id"]``. Parameters are those of :class:`Adapter`; the strategies of several
    agents may share a router.
    """

    looks = False

    def __init__(self, router: Router | Sequence[str], **options: Any) -> None:
        super().__init__(router, **options)
        self._open = dict[int, _RoutedInvocation]()

    async def select(self, context: Any, **_: Any) -> Any:
        """Strands hook: choose a candidate, or ``None`` when all have failed."""
        key = id(context.invocation_state)
        if context.attempts:
            self._close(key, context.attempts[-1].exception)
        named = {_name(candidate): candidate for candidate in context.candidates}
        eligible = [name for name in named if name not in _used(context.attempts)]
        if not eligible:
            return None
        turn = self.begin(Task(text=_text(context.messages)), eligible)
        with self._lock:
            self._open[key] = _RoutedInvocation(turn)
        return named[turn.agent]

    def register_hooks(self, registry: Any, **_: Any) -> None:
        """Strands hook: subscribe to the ends of model calls and of the invocation."""
        registry.add_callback(AfterModelCallEvent, self._after_call)
        registry.add_callback(AfterInvocationEvent, self._after_invocation)

    def _after_call(self, event: Any) -> None:
        with self._lock:
            now = self._open.get(id(event.invocation_state))
        if now is None:
            return
        now.error = event.exception
        if event.stop_response is not None:
            usage = event.stop_response.message.get("metadata", {}).get("usage", {})
            read, written = now.tokens
            now.tokens = (read + usage.get("inputTokens", 0), written + usage.get("outputTokens", 0))

    def _after_invocation(self, event: Any) -> None:
        key, result = id(event.invocation_state), event.result
        if result is None or result.stop_reason == "cancelled":
            going = sys.exception()  # the event does not say what ended the invocation
            self._close(key, CancelledError() if result is not None else going)
            return
        with self._lock:
            now = self._open.pop(key, None)
        if now is not None:
            turn = now.turn
            if isinstance(result.state, dict):
                result.state["bot_orch"] = turn.labels
            turn.answered(result, tokens=now.tokens)

    def _close(self, key: int, error: BaseException | None) -> None:
        with self._lock:
            now = self._open.pop(key, None)
        if now is not None:
            now.turn.failed(error or now.error or CancelledError())


def _used(attempts: Any) -> set[str]:
    """Candidates used in this round of failures: Strands tries each one once until a call succeeds."""
    used = set()
    for attempt in reversed(attempts):
        used.add(_name(attempt.candidate))
        if attempt.exception is None:
            break
    return used


def _name(candidate: Any) -> str:
    if not candidate.name:
        raise InvalidInputError("candidates", "has one without a name", "pass RoutingCandidate(model, name=...)")
    return str(candidate.name)


def _text(messages: Any) -> str:
    asked = [
        message for message in messages if message["role"] == "user" and any("text" in c for c in message["content"])
    ]
    return "\n".join(content["text"] for content in asked[-1]["content"] if "text" in content) if asked else ""
