"""LangChain: an agent middleware that chooses the model of every call and learns from its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bot_orch.errors import MissingExtraError
from bot_orch.integrations.turns import Turn, TurnBook, TurnJudge, token_cost
from bot_orch.router import Router
from bot_orch.types import Task

try:
    from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the LangChain adapter", "langchain") from _error

__all__ = ["RoutingMiddleware"]


class RoutingMiddleware(AgentMiddleware):  # type: ignore[misc]
    """Chooses one of ``models`` for every model call of an agent.

    Parameters
    ----------
    models
        Chat models by the names of the router's agents.
    router
        By default a new one with these agents; pass ``Router(list(models), path="router.sqlite")`` to keep what it
        learned.
    judge, success_reward
        ``judge(task, response)`` returns a reward in [0, 1], or ``None`` to wait for :meth:`feedback`. Without a judge
        an answer earns ``success_reward``, an exception 0.
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

    def feedback(self, decision_id: str, reward: float) -> None:
        """Report a reward by the id in ``response_metadata["bot_orch"]`` of the message."""
        self.turns.feedback(decision_id, reward)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[..., ModelResponse[Any]]) -> Any:
        """Choose a model, call it, report what came."""
        with self._begin(request) as turn:
            response = handler(request.override(model=self.models[turn.agent]))
        return self._answered(turn, response)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[..., Awaitable[ModelResponse[Any]]]
    ) -> Any:
        """As :meth:`wrap_model_call`; a cancelled call is right-censored."""
        with self._begin(request) as turn:
            response = await handler(request.override(model=self.models[turn.agent]))
        return self._answered(turn, response)

    def _begin(self, request: ModelRequest[Any]) -> Turn:
        asked = [message for message in request.messages if message.type == "human"]
        return self.turns.begin(Task(text=asked[-1].text if asked else ""), list(self.models))

    def _answered(self, turn: Turn, response: Any) -> Any:
        messages = [message for message in getattr(response, "result", [response]) if message.type == "ai"]
        usage = [message.usage_metadata or {} for message in messages]
        tokens = (
            sum(each.get("input_tokens", 0) for each in usage),
            sum(each.get("output_tokens", 0) for each in usage),
        )
        for message in messages:
            told = {"decision_id": turn.id, "agent": turn.agent, "propensity": turn.propensity}
            message.response_metadata = {**message.response_metadata, "bot_orch": told}
        turn.answered(response, cost_usd=token_cost(self.prices, turn.agent, tokens))
        return response
