"""LiteLLM: a routing plugin that chooses the deployment of every request, and a logger that learns from its end."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bot_orch.errors import MissingExtraError
from bot_orch.integrations.adapter import Adapter, Turn, user_text
from bot_orch.router import Router
from bot_orch.types import Task

try:
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the LiteLLM adapter", "litellm") from _error

__all__ = ["LearnedRouting"]


class LearnedRouting(Adapter, CustomLogger):  # type: ignore[misc]
    """Narrows the candidates of a request to one. Agents are named as ``litellm_params["model"]``.

    It is a plugin of LiteLLM's router and a callback of LiteLLM:

    >>> routing = LearnedRouting(["openai/gpt-5-mini", "openai/gpt-5"])  # doctest: +SKIP
    >>> litellm.callbacks.append(routing)  # doctest: +SKIP
    >>> router = litellm.Router(model_list, plugins=[routing], disable_cooldowns=True)  # doctest: +SKIP

    ``judge(task, response)`` rates a response; :meth:`feedback` takes the response's ``id`` or its
    ``_hidden_params["litellm_call_id"]``. See :class:`Adapter` for the parameters; dollars come from LiteLLM.
    """

    def __init__(self, router: Router | Sequence[str], **options: Any) -> None:
        super().__init__(router, **options)
        self.key = uuid.uuid4().hex  # LiteLLM drops a second callback of a class whose public strings are the same
        self._watched: dict[str, tuple[asyncio.Task[Any], Any]] = {}

    async def run(self, context: Any) -> Any:
        """LiteLLM hook: keep one candidate; in a retry, one that was not tried for this request."""
        earlier = (context.metadata.get("routing_plugin_signals") or {}).get("bot_orch") or {}
        before = self.find(earlier.get("decision_id", ""))
        if before is not None:
            self._end(before)  # its failure was not reported: LiteLLM found no deployment for it
        tried = earlier.get("tried", [])
        known = [model for model in dict.fromkeys(context.candidate_models) if model in self.router.agents]
        eligible = [model for model in known if model not in tried] or known
        if not eligible:  # a group of models that this router does not know
            return context
        turn = self.begin(Task(text=user_text(context.structured_messages)), eligible)
        self._watch(turn)
        context.signals["bot_orch"] = {**turn.labels, "tried": [*tried, turn.agent]}
        context.candidate_models = [turn.agent]
        return context

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """LiteLLM hook: report an answer with its seconds and dollars."""
        turn = self._turn(kwargs)
        if turn is not None:
            for name in (kwargs.get("litellm_call_id"), getattr(response_obj, "id", None)):
                if name:
                    self.add_id(turn, name)
            elapsed_s = (end_time - start_time).total_seconds()
            turn.answered(response_obj, cost_usd=kwargs.get("response_cost"), elapsed_s=elapsed_s)

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """LiteLLM hook: report an error or a timeout."""
        turn = self._turn(kwargs)
        if turn is not None:
            elapsed_s = (end_time - start_time).total_seconds()
            turn.failed(kwargs.get("exception"), cost_usd=kwargs.get("response_cost") or None, elapsed_s=elapsed_s)

    def _turn(self, kwargs: Mapping[str, Any]) -> Turn | None:
        params = kwargs.get("litellm_params") or {}
        for name in ("metadata", "litellm_metadata"):
            signals = (params.get(name) or {}).get("routing_plugin_signals") or {}
            if "bot_orch" in signals:
                turn = self.find(signals["bot_orch"]["decision_id"])
                if turn is not None:
                    self._forget(turn)
                return turn
        return None

    def _watch(self, turn: Turn) -> None:
        """Observe the task that makes the call: LiteLLM does not log cancelled calls."""
        task = asyncio.current_task()
        if task is not None:
            ended = partial(self._task_ended, turn)
            task.add_done_callback(ended)
            self._watched[turn.id] = (task, ended)

    def _task_ended(self, turn: Turn, task: asyncio.Task[Any]) -> None:
        self._watched.pop(turn.id, None)
        if task.cancelled():
            turn.failed(asyncio.CancelledError())
        elif task.exception() is not None:
            turn.failed(task.exception())

    def _end(self, turn: Turn) -> None:
        self._forget(turn)
        turn.failed(asyncio.CancelledError())

    def _forget(self, turn: Turn) -> None:
        watched = self._watched.pop(turn.id, None)
        if watched is not None:
            watched[0].remove_done_callback(watched[1])
