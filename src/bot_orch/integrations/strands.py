"""Strands Agents: a routing strategy that chooses the model of an invocation, also after failures, and learns."""

from __future__ import annotations

import sys
from asyncio import CancelledError
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.integrations.turns import Turn, TurnBook, TurnJudge, token_cost
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


class LearnedStrategy:
    """Chooses among the named candidates of a ``ModelRouter``; one that failed in this round is not asked again.

    It is the strategy of the model router and a hook of the agent, one object per agent:

    >>> strategy = LearnedStrategy(Router(["small", "large"]))  # doctest: +SKIP
    >>> agent = Agent(model=ModelRouter(candidates, strategy=strategy), hooks=[strategy])  # doctest: +SKIP

    Parameters
    ----------
    router
        A router, or the names of the candidates; ``Router(names, path="router.sqlite")`` keeps what it learned. The
        strategies of several agents may share it.
    judge, success_reward
        ``judge(task, result)`` returns a reward in [0, 1] for the agent's result, or ``None`` to wait for
        :meth:`feedback`. Without a judge an invocation that ends well earns ``success_reward``, an exception 0.
    prices
        Dollars per million tokens read and written, by name: costs are then part of the outcome.
    """

    def __init__(
        self,
        router: Router | list[str],
        *,
        judge: TurnJudge | None = None,
        success_reward: float | None = 1.0,
        prices: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        router = router if isinstance(router, Router) else Router(router)
        self.turns = TurnBook(router, judge=judge, success_reward=success_reward)
        self.prices, self._open, self._lock = dict(prices or {}), dict[int, _RoutedInvocation](), Lock()

    @property
    def router(self) -> Router:
        """The router, for its history, plots and settings."""
        return self.turns.router

    def feedback(self, decision_id: str, reward: float) -> None:
        """Report a reward by ``result.state["bot_orch"]["decision_id"]``."""
        self.turns.feedback(decision_id, reward)

    async def select(self, context: Any, **_: Any) -> Any:
        """For Strands: choose a candidate, or ``None`` when every one has failed."""
        key = id(context.invocation_state)
        if context.attempts:
            self._close(key, context.attempts[-1].exception)
        named = {_name(candidate): candidate for candidate in context.candidates}
        eligible = [name for name in named if name not in _used(context.attempts)]
        if not eligible:
            return None
        turn = self.turns.begin(Task(text=_text(context.messages)), eligible)
        with self._lock:
            self._open[key] = _RoutedInvocation(turn)
        return named[turn.agent]

    def register_hooks(self, registry: Any, **_: Any) -> None:
        """For Strands: be told of the end of model calls and of the invocation."""
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
            told = {"decision_id": turn.id, "agent": turn.agent, "propensity": turn.propensity}
            if isinstance(result.state, dict):
                result.state["bot_orch"] = told
            turn.answered(result, cost_usd=token_cost(self.prices, turn.agent, now.tokens))

    def _close(self, key: int, error: BaseException | None) -> None:
        with self._lock:
            now = self._open.pop(key, None)
        if now is not None:
            now.turn.failed(error or now.error or CancelledError())


def _used(attempts: Any) -> set[str]:
    """Candidates that this round of failures has used: Strands asks each one once until a call succeeds."""
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
