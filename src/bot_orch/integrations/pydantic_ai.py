"""PydanticAI: a capability that chooses the model of every run and learns from how the run ends."""

from __future__ import annotations

from asyncio import CancelledError
from datetime import UTC, datetime
from typing import Any

from bot_orch.errors import MissingExtraError
from bot_orch.integrations.adapter import ModelAdapter, Turn
from bot_orch.types import Task

try:
    from pydantic_ai import RetryModelRequest
    from pydantic_ai.capabilities import AbstractCapability
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the PydanticAI adapter", "pydantic-ai") from _error

__all__ = ["RoutedRuns"]


class RoutedRuns(ModelAdapter, AbstractCapability):  # type: ignore[misc]
    """Chooses one of ``models`` for a run; all requests of the run go to it.

    >>> agent = Agent(capabilities=[RoutedRuns({"small": small, "large": large})])  # doctest: +SKIP

    ``models`` may be ids, such as ``"openai:gpt-5"``. ``judge(task, result)`` rates the result of a run;
    :meth:`feedback` takes ``result.run_id``. With ``attempts`` and ``check(task, response)`` a response without tool
    calls is looked at before the run goes on, and another model may be asked; streams are not looked at. See
    :class:`ModelAdapter` for the parameters.
    """

    def get_model(self) -> Any:
        """PydanticAI hook: the selector, called before every request."""
        return self._select

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        """PydanticAI hook: report how the run ended; a cancelled run is right-censored."""
        try:
            result = await handler()
        except BaseException as error:
            turn = self.find(ctx.run_id)
            if turn is not None:
                late = ctx.deadline is not None and datetime.now(UTC) >= ctx.deadline  # of run(timeout=)
                turn.failed(TimeoutError() if late and isinstance(error, CancelledError) else error)
            raise
        turn = self.find(ctx.run_id)
        if turn is not None:
            turn.answered(result, tokens=(ctx.usage.input_tokens, ctx.usage.output_tokens))
        return result

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """PydanticAI hook: look at a response that may end the run; deliver it, or an earlier one, or ask again."""
        turn = None if self.check is None or request_context.streaming else self.find(ctx.run_id)
        if turn is None or turn.accepted or any(part.part_kind == "tool-call" for part in response.parts):
            return response
        tokens = (response.usage.input_tokens, response.usage.output_tokens)
        return self._went_on(await turn.looked_async(response, tokens=tokens), ctx.run_id)

    async def on_model_request_error(self, ctx: Any, *, request_context: Any, error: Exception) -> Any:
        """PydanticAI hook: after a failure ask another model, if answers are looked at."""
        turn = None if self.check is None or request_context.streaming else self.find(ctx.run_id)
        if turn is None or turn.accepted:
            raise error
        return self._went_on(turn.failed_over(error), ctx.run_id)

    def _went_on(self, turn: Turn, run_id: str) -> Any:
        self.add_id(turn, run_id)
        if turn.accepted:
            return turn.answer
        raise RetryModelRequest(self.models[turn.agent])

    def _select(self, context: Any) -> Any:
        turn = None if context.run_id is None else self.find(context.run_id)
        if turn is not None:
            return self.models[turn.agent]
        if context.usage_limits is None:  # outside of a run nothing would be reported
            return context.model or next(iter(self.models.values()))
        turn = self.begin(Task(text=_text(context.prompt)), list(self.models), call_id=context.run_id)
        return self.models[turn.agent]


def _text(prompt: Any) -> str:
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return "\n".join(part for part in prompt if isinstance(part, str))
