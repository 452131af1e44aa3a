"""Agents given as Python functions of a task, for :class:`bot_orch.Router`."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

from bot_orch.agents.base import CallFailure
from bot_orch.agents.endings import Ending
from bot_orch.errors import InvalidInputError, UnknownAgentError
from bot_orch.survival.causes import Cause
from bot_orch.types import Decision, Outcome, Task

__all__ = [
    "Function",
    "Judge",
    "Verdict",
    "ask",
    "ask_within",
    "check_function",
    "check_sync",
    "ending_of",
    "is_async",
    "noting",
    "outcome_of",
]

Function = Callable[[Task], Any]
Verdict = float | Outcome | None
Judge = Callable[[Task, Any], Verdict | Awaitable[Verdict]]


def check_function(name: str, function: Function, agents: Collection[str]) -> None:
    """Raise an error unless the function is callable and ``name`` is one of ``agents``."""
    if name not in agents:
        raise UnknownAgentError(f"functions.{name}", "belongs to no agent", f"choose from {agents}")
    if not callable(function):
        raise InvalidInputError(f"functions.{name}", f"is {function!r}", "pass a function of a task")


def is_async(function: Callable[..., Any] | None) -> bool:
    """Whether the function, or the ``__call__`` of an object, is ``async``."""
    return any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004


def check_sync(name: str, function: Callable[..., Any] | None) -> None:
    """Raise an error if the function is ``async``."""
    if is_async(function):
        raise InvalidInputError(name, "is async", "use acall")


async def ask(function: Function, task: Task) -> Any:
    """Call the function; one that is not ``async`` runs in a thread and may return an awaitable."""
    answer = function(task) if is_async(function) else await asyncio.to_thread(function, task)
    return await answer if inspect.isawaitable(answer) else answer


def ask_within(function: Function, task: Task, timeout_s: float, *, late: TimeoutError) -> Any:
    """Call the function in a thread of its own and raise ``late`` unless it ends in time; the thread then runs on."""
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(function(task))
        except BaseException as error:
            answer.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name=f"agent-{task.id}", daemon=True).start()
    if not wait([answer], timeout_s).done:
        raise late
    return answer.result()


def ending_of(error: BaseException) -> Ending:
    """The ending for a call that raised ``error``; a :class:`CallFailure` carries its own.

    Examples
    --------
    >>> ending_of(ValueError()), ending_of(KeyboardInterrupt()), ending_of(CallFailure(Ending.RATE_LIMITED))
    (<Ending.CRASHED: 'crashed'>, <Ending.CANCELLED_BY_CALLER: 'cancelled_by_caller'>,
     <Ending.RATE_LIMITED: 'rate_limited'>)
    """
    if isinstance(error, CallFailure):
        return error.ending
    if isinstance(error, MemoryError):
        return Ending.OUT_OF_MEMORY
    return Ending.CRASHED if isinstance(error, Exception) else Ending.CANCELLED_BY_CALLER


def outcome_of(ending: Ending, elapsed_s: float) -> Outcome:
    """The outcome of a call without an answer: a failure has reward 0, a censored call has none.

    Examples
    --------
    >>> outcome_of(Ending.CRASHED, 1.5)
    Outcome(event=False, reward=0.0, elapsed_s=1.5, reason='crashed', output=None, cost_usd=None)
    >>> outcome_of(Ending.TIMEOUT_TOTAL, 1.5)
    Outcome(event=False, reward=None, elapsed_s=1.5, reason='timeout', output=None, cost_usd=None)
    """
    failed = ending.meaning.attempted and ending.meaning.cause > Cause.COMPLETED
    return Outcome(False, 0.0 if failed else None, elapsed_s, ending.meaning.reason)


@contextmanager
def noting(decision: Decision) -> Iterator[None]:
    """Add the decision id as a note to any exception raised after the answer."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"nothing was learned from decision {decision.id} (agent {decision.agent!r})")
        raise
