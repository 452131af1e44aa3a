"""PydanticAI: a capability that chooses the model of every run and learns from how the run ends."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from bot_orch.errors import MissingExtraError
from bot_orch.integrations.turns import TurnBook, TurnJudge, token_cost
from bot_orch.router import Router
from bot_orch.types import Task

try:
    from pydantic_ai.capabilities import AbstractCapability
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the PydanticAI adapter", "pydantic-ai") from _error

__all__ = ["RoutedRuns"]


class RoutedRuns(AbstractCapability):  # type: ignore[misc]
    """Chooses one of ``models`` for a run; all requests of the run go to it.

    >>> agent = Agent(capabilities=[RoutedRuns({"small": small, "large": large})])  # doctest: +SKIP

    Parameters
    ----------
    models
        Models (or their ids, such as ``"openai:gpt-5"``) by the names of the router's agents.
    router
        By default a new one with these agents; ``Router(list(models), path="router.sqlite")`` keeps what it learned.
    judge, success_reward
        ``judge(task, result)`` returns a reward in [0, 1] for the run's result, or ``None`` to wait for
        :meth:`feedback`. Without a judge a run that ends well earns ``success_reward``, an exception 0.
    prices
        Dollars per million tokens read and written, by name: costs are then part of the outcome.
    """

    def __init__(
        self,
        models: Mapping[str, Any],
        router: Router | None = None,
        *,
        judge: TurnJudge | None = None,
        success_reward: float | None = 1.0,
        prices: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        super().__init__()
        self.models, self.prices = dict(models), dict(prices or {})
        self.turns = TurnBook(router or Router(list(models)), judge=judge, success_reward=success_reward)

    @property
    def router(self) -> Router:
        """The router, for its history, plots and settings."""
        return self.turns.router

    def feedback(self, run_id: str, reward: float) -> None:
        """Report a reward by ``result.run_id``."""
        self.turns.feedback(run_id, reward)

    def get_model(self) -> Any:
        """For PydanticAI: the selector, which is asked before every request."""
        return self._select

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        """For PydanticAI: report how the run ended; a cancelled run is right-censored."""
        try:
            result = await handler()
        except BaseException as error:
            turn = self.turns.find(ctx.run_id)
            if turn is not None:
                late = ctx.deadline is not None and datetime.now(UTC) >= ctx.deadline  # of run(timeout=)
                turn.failed(TimeoutError() if late and isinstance(error, CancelledError) else error)
            raise
        turn = self.turns.find(ctx.run_id)
        if turn is not None:
            tokens = (ctx.usage.input_tokens, ctx.usage.output_tokens)
            turn.answered(result, cost_usd=token_cost(self.prices, turn.agent, tokens))
        return result

    def _select(self, context: Any) -> Any:
        turn = None if context.run_id is None else self.turns.find(context.run_id)
        if turn is not None:
            return self.models[turn.agent]
        if context.usage_limits is None:  # outside of a run nothing would be reported
            return context.model or next(iter(self.models.values()))
        turn = self.turns.begin(Task(text=_text(context.prompt)), list(self.models), call_id=context.run_id)
        return self.models[turn.agent]


def _text(prompt: Any) -> str:
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return "\n".join(part for part in prompt if isinstance(part, str))
