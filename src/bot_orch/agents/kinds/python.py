"""Python functions as agents, given by import path."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import reduce
from typing import Any

from bot_orch.agents.base import CallFailure, CallReply, CallRequest, Chunk
from bot_orch.agents.endings import Ending
from bot_orch.agents.limits import Limits
from bot_orch.agents.replies import in_one_piece, reply_from_value
from bot_orch.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class PythonSettings:
    """The function, as ``package.module:function``; it takes a :class:`CallRequest`.

    ``folder`` is where to look for the module if it is not installed; in the service that of the configuration file.

    It returns a string, an object with ``text`` or ``output``, or a :class:`CallReply`. It may be ``async``; an
    ``async`` generator of strings streams.
    """

    path: str
    folder: str | None = None

    def __post_init__(self) -> None:
        module, colon, name = self.path.partition(":")
        if not (module and colon and name):
            raise InvalidInputError("path", f"is {self.path!r}", "write package.module:function")


def load_function(path: str, folder: str | None = None) -> Callable[[CallRequest], Any]:
    """Import a function by its path ``package.module:function``; ``folder`` is searched last, from now on.

    Examples
    --------
    >>> load_function("textwrap:dedent").__name__
    'dedent'
    """
    module, _, name = path.partition(":")
    if folder is not None and folder not in sys.path:
        sys.path.append(folder)
    try:
        found = reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise InvalidInputError("path", f"{path!r} cannot be imported ({error})", "check module and name") from error
    if not callable(found):
        raise InvalidInputError("path", f"{path!r} is not callable", "name a function")
    function: Callable[[CallRequest], Any] = found
    return function


class PythonRunner:
    """Runner that calls the function: on the event loop if it is ``async``, else in a new thread.

    A thread cannot be killed. After a timeout or cancellation it keeps its concurrency slot until it returns,
    so that a hanging function gets no further calls instead of further threads.
    """

    def __init__(self, settings: PythonSettings | Callable[[CallRequest], Any], limits: Limits | None = None) -> None:
        self._function = (
            load_function(settings.path, settings.folder) if isinstance(settings, PythonSettings) else settings
        )
        self._limits = limits or Limits()
        self._threads = 0
        self.streams = _is(inspect.isasyncgenfunction, self._function)

    async def call(self, request: CallRequest) -> CallReply:
        """Call the function and convert its result to a reply."""
        if self.streams:
            async with aclosing(self.stream(request)) as chunks:
                return [chunk.reply async for chunk in chunks if chunk.reply][-1]
        try:
            if _is(inspect.iscoroutinefunction, self._function):
                return reply_from_value(await self._function(request))
            return reply_from_value(await self._in_thread(request))
        except Exception as error:
            raise _crash(error) from error

    async def stream(self, request: CallRequest) -> AsyncGenerator[Chunk, None]:
        """Stream the strings of an ``async`` generator; other functions yield a single chunk."""
        if not self.streams:
            async for chunk in in_one_piece(await self.call(request)):
                yield chunk
            return
        pieces: list[str] = []
        try:
            async with aclosing(self._function(request)) as source:
                async for piece in source:
                    if not isinstance(piece, str):
                        raise CallFailure(Ending.MALFORMED, "the function yielded something other than a string")
                    pieces.append(piece)
                    yield Chunk(piece)
        except Exception as error:
            raise _crash(error) from error
        yield Chunk(reply=CallReply("".join(pieces)))

    async def close(self) -> None:
        """Do nothing: threads are daemons."""

    async def _in_thread(self, request: CallRequest) -> Any:
        if self._threads >= self._limits.slots:
            raise CallFailure(Ending.REFUSED_BUSY, "not asked: earlier calls still run in their threads")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                result, failure = context.run(self._function, request), None
            except BaseException as error:
                result, failure = None, _crash(error)
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(deliver, result, failure)

        def deliver(result: Any, failure: CallFailure | None) -> None:
            self._threads -= 1
            if answer.done():
                return
            answer.set_exception(failure) if failure else answer.set_result(result)

        self._threads += 1
        threading.Thread(target=work, name="bot-orch-agent", daemon=True).start()
        return await answer


def _is(kind: Callable[[Any], bool], function: Callable[..., Any]) -> bool:
    """Whether the function, or an object's ``__call__``, is of this kind."""
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004


def _crash(error: BaseException) -> CallFailure:
    if isinstance(error, CallFailure):
        return error
    ending = Ending.OUT_OF_MEMORY if isinstance(error, MemoryError) else Ending.CRASHED
    failure = CallFailure(ending, f"the function raised {type(error).__name__}")
    failure.__cause__ = error
    return failure
