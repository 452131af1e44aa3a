"""LangGraph: nodes are agents. A conditional edge chooses one; its outcome is observed when the node ends."""

from __future__ import annotations

import inspect
import time
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.integrations.adapter import Adapter, Turn
from bot_orch.router import Router
from bot_orch.types import Outcome, Task

try:
    from langgraph.errors import GraphBubbleUp
    from langgraph.graph import END
    from langgraph.types import Command, Send
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the LangGraph adapter", "langgraph") from _error

__all__ = ["DECISION", "GraphRouter"]

DECISION = "bot_orch_decision"


class GraphRouter(Adapter):
    """Adds a choice among nodes to a graph.

    >>> choice = GraphRouter(["small", "large"], text=lambda state: state["question"])  # doctest: +SKIP
    >>> choice.connect(graph, {"small": ask_small, "large": ask_large}, source=START, then=END)  # doctest: +SKIP

    Parameters
    ----------
    router, options
        As of :class:`Adapter`; ``judge(task, update)`` rates what the node returned.
    text
        The text of the task, from the graph's state.
    """

    def __init__(
        self, router: Router | Sequence[str], *, text: Callable[[Any], str] = lambda _: "", **options: Any
    ) -> None:
        super().__init__(router, **options)
        self._text = text

    def connect(
        self, graph: Any, nodes: Mapping[str, Any], *, source: str, then: str | None = None, **options: Any
    ) -> None:
        """Add the nodes, the routing after ``source``, and edges from each node to ``then``.

        With ``check`` a node goes on to ``then`` (or the end) with the update that is delivered, or to another node.
        """
        for name, function in nodes.items():
            timeout_s, after = _seconds(options.get("timeout")), then or END
            graph.add_node(name, self.node(function, timeout_s=timeout_s, then=after), **options)
            if then is not None and self.check is None:
                graph.add_edge(name, then)
        graph.add_conditional_edges(source, self.path, list(nodes))

    def path(self, state: Any) -> Send:
        """For ``add_conditional_edges``: choose a node; the state carries the decision's id."""
        if not isinstance(state, Mapping):
            raise InvalidInputError("state", f"is a {type(state).__name__}", "use a TypedDict as the graph's state")
        turn = self.begin(Task(text=self._text(state)))
        return Send(turn.agent, {**state, DECISION: turn.id})

    def node(
        self, function: Callable[..., Any], *, timeout_s: float | None = None, then: str = END
    ) -> Callable[..., Any]:
        """Wrap a node: its end is the outcome of the decision that led to it. ``interrupt()`` leaves it pending.

        The graph cancels a node at its time limit; ``timeout_s`` tells that from a run that was cancelled.
        """

        def ended(state: Any, began: float, *, update: Any = None, error: BaseException | None = None) -> Any:
            """Report the end; returns what the node returns, or raises what it raises."""
            decision_id = state.get(DECISION) if isinstance(state, Mapping) else None
            if decision_id is None or isinstance(error, GraphBubbleUp):
                return _result(update, error)
            turn, elapsed_s = self.find(decision_id), time.monotonic() - began
            if isinstance(error, CancelledError) and timeout_s is not None and elapsed_s >= timeout_s:
                error = TimeoutError(f"no answer within {timeout_s} s")
            if turn is None:
                self._resumed(decision_id, elapsed_s, error)
            elif isinstance(error, Exception):
                return self._went_on(turn.failed_over(error), state, then)
            elif error is not None:
                turn.failed(error)
            else:
                return self._went_on(turn.looked(update), state, then)
            return _result(update, error)

        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def later(state: Any, *rest: Any, **named: Any) -> Any:
                began = time.monotonic()
                try:
                    update = await function(state, *rest, **named)
                except BaseException as error:
                    return ended(state, began, error=error)
                return ended(state, began, update=update)

            return later

        @wraps(function)
        def now(state: Any, *rest: Any, **named: Any) -> Any:
            began = time.monotonic()
            try:
                update = function(state, *rest, **named)
            except BaseException as error:
                return ended(state, began, error=error)
            return ended(state, began, update=update)

        return now

    def _went_on(self, turn: Turn, state: Any, then: str) -> Any:
        """Deliver an answer, or go on to another node."""
        if not turn.accepted:
            return Command(goto=Send(turn.agent, {**state, DECISION: turn.id}))
        turn.answered(turn.answer)
        return turn.answer if self.check is None else Command(update=turn.answer, goto=then)

    def _resumed(self, decision_id: str, elapsed_s: float, error: BaseException | None) -> None:
        """Report a node that was interrupted in another process; its decision is in the router's file."""
        if decision_id not in self.router.pending:
            return
        if error is not None:
            self.router.observe(decision_id, Outcome(False, 0.0, elapsed_s, "crashed"))
        elif self.success_reward is not None:
            done = Outcome.completed(self.success_reward, elapsed_s=elapsed_s)
            self.router.observe(decision_id, done, default=True)


def _result(update: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise error
    return update


def _seconds(limit: Any) -> float | None:
    """A LangGraph time limit in seconds, if it is a single number."""
    limit = getattr(limit, "run_timeout", limit)
    return limit.total_seconds() if isinstance(limit, timedelta) else limit if isinstance(limit, int | float) else None
