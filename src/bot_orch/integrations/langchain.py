"""LangChain: an agent middleware that chooses the model of every call and learns from its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bot_orch.errors import MissingExtraError
from bot_orch.integrations.adapter import ModelAdapter, Turn
from bot_orch.types import Task

try:
    from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the LangChain adapter", "langchain") from _error

__all__ = ["RoutingMiddleware"]


class RoutingMiddleware(ModelAdapter, AgentMiddleware):  # type: ignore[misc]
    """Chooses one of ``models`` for every model call of an agent.

    ``judge(task, response)`` rates a response; :meth:`feedback` takes the id in ``response_metadata["bot_orch"]`` of a
    message. See :class:`ModelAdapter` for the parameters.
    """

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[..., ModelResponse[Any]]) -> Any:
        """Choose a model, call it, and report the result."""
        with self._begin(request) as turn:
            response = handler(request.override(model=self.models[turn.agent]))
        return self._answered(turn, response)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[..., Awaitable[ModelResponse[Any]]]
    ) -> Any:
        """Async version of :meth:`wrap_model_call`; a cancelled call is right-censored."""
        with self._begin(request) as turn:
            response = await handler(request.override(model=self.models[turn.agent]))
        return self._answered(turn, response)

    def _begin(self, request: ModelRequest[Any]) -> Turn:
        asked = [message for message in request.messages if message.type == "human"]
        return self.begin(Task(text=asked[-1].text if asked else ""), list(self.models))

    def _answered(self, turn: Turn, response: Any) -> Any:
        messages = [message for message in getattr(response, "result", [response]) if message.type == "ai"]
        usage = [message.usage_metadata or {} for message in messages]
        tokens = (
            sum(each.get("input_tokens", 0) for each in usage),
            sum(each.get("output_tokens", 0) for each in usage),
        )
        for message in messages:
            message.response_metadata = {**message.response_metadata, "bot_orch": turn.labels}
        turn.answered(response, tokens=tokens)
        return response
