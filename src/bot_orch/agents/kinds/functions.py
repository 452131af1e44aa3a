"""Agents given as Python functions of a task or of its text, for :class:`bot_orch.Router`."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import re
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

Function = Callable[[Task], Any] | Callable[[str], Any]
_TEXTS = ("text", "prompt")
Verdict = float | Outcome | None
Judge = Callable[[Task, Any], Verdict | Awaitable[Verdict]]


def check_function(name: str, function: Function, agents: Collection[str]) -> None:
    """Raise an error unless the function can be called with one argument and ``name`` is one of ``agents``."""
    if name not in agents:
        raise UnknownAgentError(f"functions.{name}", "belongs to no agent", f"choose from {agents}")
    if not callable(function):
        raise InvalidInputError(f"functions.{name}", f"is {function!r}", "pass a function of a task or of a text")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        problem = f"cannot be called with one argument ({error})"
        raise InvalidInputError(f"functions.{name}", problem, "pass a function of a task or of a text") from None
    except ValueError:  # a function written in C may tell nothing
        return


def takes_text(function: Callable[..., Any]) -> bool:
    """Whether a function is one of a text: its first parameter is annotated as ``str``, or is called ``text`` or
    ``prompt`` and not annotated, or it is a method of ``str``. Every other function is one of a task.

    Examples
    --------
    >>> takes_text(str.upper), takes_text(lambda text: text), takes_text(lambda task: task.text)
    (True, True, False)
    """
    if getattr(function, "__objclass__", None) is str:
        return True
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):  # a function written in C may tell nothing
        return False
    if first is None:
        return False
    if first.annotation is inspect.Parameter.empty:
        return first.name in _TEXTS
    return first.annotation in (str, "str")


def argument_of(task: Task, name: str, *, text: bool) -> Task | str:
    """The argument for an agent's function: the task, or its text."""
    if not text:
        return task
    if task.text is None:
        raise InvalidInputError("task.text", f"is missing, and {name!r} is a function of a text", "pass Task(text=...)")
    return task.text


def unfit_argument(name: str, error: BaseException, given: Task | str) -> InvalidInputError | None:
    """The error for a function that got a task but expects text, or the reverse; None for any other failure.

    It would fail alike on every call, so it is a mistake of the program and no outcome of the agent.
    """
    wants_other = isinstance(error, AttributeError) and error.obj is given
    if isinstance(given, Task) and isinstance(error, TypeError):  # such as: 'Task' object is not iterable
        wants_other = re.search(r"\bTask\b", str(error)) is not None
    if not wants_other:
        return None
    kind = "a task" if isinstance(given, Task) else "a text"
    remedy = "annotate its parameter with what it takes, such as text: str or task: Task"
    return InvalidInputError(f"functions.{name}", f"fails on {kind} ({error})", remedy)


def is_async(function: Callable[..., Any] | None) -> bool:
    """Whether the function, or the ``__call__`` of an object, is ``async``."""
    return any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004


def check_sync(name: str, function: Callable[..., Any] | None) -> None:
    """Raise an error if the function is ``async``."""
    if is_async(function):
        raise InvalidInputError(name, "is async", "use acall")


async def ask(function: Callable[..., Any], given: Task | str) -> Any:
    """Call the function; one that is not ``async`` runs in a thread and may return an awaitable."""
    answer = function(given) if is_async(function) else await asyncio.to_thread(function, given)
    return await answer if inspect.isawaitable(answer) else answer


def ask_within(function: Callable[..., Any], given: Task | str, timeout_s: float, *, late: TimeoutError) -> Any:
    """Call the function in a separate thread and raise ``late`` if it is not done in time; the thread keeps running."""
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(function(given))
        except BaseException as error:
            answer.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="bot-orch-agent", daemon=True).start()
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


def outcome_of(ending: Ending, elapsed_s: float, *, lowest: float = 0.0) -> Outcome:
    """The outcome of a call without an answer: the lowest reward for a failure, none for a censored call.

    Examples
    --------
    >>> outcome_of(Ending.CRASHED, 1.5)
    Outcome(event=False, reward=0.0, elapsed_s=1.5, reason='crashed', output=None, cost_usd=None, reset_s=None)
    >>> outcome_of(Ending.TIMEOUT_TOTAL, 1.5)
    Outcome(event=False, reward=None, elapsed_s=1.5, reason='timeout', output=None, cost_usd=None, reset_s=None)
    """
    failed = ending.meaning.attempted and ending.meaning.cause > Cause.COMPLETED
    return Outcome(False, lowest if failed else None, elapsed_s, ending.meaning.reason)


@contextmanager
def noting(decision: Decision) -> Iterator[None]:
    """Add the decision id as a note to any exception raised after the answer."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"nothing was learned from decision {decision.id} (agent {decision.agent!r})")
        raise
