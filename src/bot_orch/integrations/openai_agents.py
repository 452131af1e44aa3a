"""OpenAI Agents SDK: a provider that chooses the model of every call, and handoffs with one offer per run."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from bot_orch.agents.endings import Ending
from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.integrations.adapter import Adapter, ModelAdapter, Turn, user_text
from bot_orch.router import Router
from bot_orch.types import Task

try:
    from agents import Model, ModelProvider, RunHooks, handoff
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the adapter of the OpenAI Agents SDK", "agents-sdk") from _error

__all__ = ["RoutedHandoffs", "RoutedModels"]


class RoutedModels(ModelAdapter, ModelProvider):  # type: ignore[misc]
    """Chooses one of ``models`` for every call of an agent without its own model: ``RunConfig(model_provider=)``.

    ``judge(task, response)`` rates a response; :meth:`feedback` takes ``result.last_response_id``. With ``attempts``
    and ``check(task, response)`` another model is asked before an answer is delivered; streams are not looked at.
    Parameters are those of :class:`ModelAdapter`.
    """

    def get_model(self, model_name: str | None) -> Any:
        """SDK hook: the routed model, or the one that an agent requests by name."""
        if model_name is None:
            return _RoutedModel(self)
        if model_name not in self.models:
            raise InvalidInputError("model", f"{model_name} is not among {list(self.models)}", "name one, or none")
        return self.models[model_name]

    def answered(self, turn: Turn, response: Any, response_id: str | None) -> None:
        """Report an answer of a model."""
        if response_id:
            self.add_id(turn, response_id)
        turn.answered(response, tokens=_tokens(response))


def _tokens(response: Any) -> tuple[int, int]:
    return (response.usage.input_tokens, response.usage.output_tokens) if response.usage else (0, 0)


class _RoutedModel(Model):  # type: ignore[misc]
    def __init__(self, provider: RoutedModels) -> None:
        self._provider = provider

    def _begin(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> Turn:
        task = Task(text=user_text(named["input"] if "input" in named else given[1]))
        return self._provider.begin(task, list(self._provider.models))

    async def get_response(self, *given: Any, **named: Any) -> Any:
        turn = self._begin(given, named)
        while not turn.accepted:
            try:
                with turn:
                    response = await self._provider.models[turn.agent].get_response(*given, **named)
            except Exception as error:
                turn = turn.failed_over(error)
            else:
                turn = await turn.looked_async(response, tokens=_tokens(response))
        answer: Any = turn.answer
        self._provider.answered(turn, answer, answer.response_id)
        return answer

    async def stream_response(self, *given: Any, **named: Any) -> AsyncIterator[Any]:
        with self._begin(given, named) as turn:
            async for event in self._provider.models[turn.agent].stream_response(*given, **named):
                if event.type == "response.completed":
                    self._provider.answered(turn, event.response, event.response.id)
                yield event
        turn.failed()  # if the stream ended before its last event


class RoutedHandoffs(Adapter, RunHooks):  # type: ignore[misc]
    """Offers an agent one of several handoffs, chosen for every run; also implements the run hooks.

    >>> choice = RoutedHandoffs([refunds, sales])  # doctest: +SKIP
    >>> triage = Agent(name="triage", handoffs=choice.handoffs)  # doctest: +SKIP
    >>> with choice.routed(question):  # doctest: +SKIP
    ...     result = await Runner.run(triage, question, hooks=choice)

    The outcome belongs to the agent that took over; ``judge(task, output)`` rates its output. ``options`` are those of
    :class:`Adapter`.
    """

    looks = False

    def __init__(self, agents: Sequence[Any], router: Router | None = None, **options: Any) -> None:
        super().__init__(router or [agent.name for agent in agents], **options)
        self.handoffs = [handoff(agent, is_enabled=partial(self._enabled, agent.name)) for agent in agents]
        self._names = [agent.name for agent in agents]
        self._run: ContextVar[dict[str, Any] | None] = ContextVar("routed_run", default=None)

    @contextmanager
    def routed(self, text: str = "") -> Iterator[dict[str, Any]]:
        """Make the runs inside one decision; yields a dict with ``turn``, and ``began`` once the agent takes over."""
        run: dict[str, Any] = {"text": text}
        token = self._run.set(run)
        try:
            yield run
        finally:
            self._run.reset(token)
            if "began" in run:
                run["turn"].failed(sys.exception(), elapsed_s=time.monotonic() - run["began"])
            elif "turn" in run:  # offered, not taken: says nothing about the agent
                run["turn"].failed(ending=Ending.CANCELLED_BY_CALLER)

    def _enabled(self, name: str, _context: Any, _agent: Any) -> bool:
        run = self._run.get()
        if run is None:
            raise InvalidInputError("run", "is not routed", "run the agent inside `with choice.routed(text):`")
        if "turn" not in run:
            run["turn"] = self.begin(Task(text=run["text"]), self._names)
        return bool(run["turn"].agent == name)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """SDK hook: the chosen agent takes over."""
        run = self._run.get()
        if run and "turn" in run and run["turn"].agent == to_agent.name:
            run.setdefault("began", time.monotonic())

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """SDK hook: report the output of the run."""
        run = self._run.get()
        if run and "began" in run:
            run["turn"].answered(output, elapsed_s=time.monotonic() - run["began"])
