"""Observers: any number of subscribers to one signal."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Generic, ParamSpec

__all__ = ["AwaitedObservers", "Observers"]

P = ParamSpec("P")


class Observers(Generic[P]):
    """Calls every subscriber, in the order of subscription.

    Examples
    --------
    >>> heard, signal = [], Observers()
    >>> signal.subscribe(heard.append)
    >>> signal.send("row 1")
    >>> heard
    ['row 1']
    """

    def __init__(self) -> None:
        self._subscribers: list[Callable[P, None]] = []

    def subscribe(self, subscriber: Callable[P, None]) -> None:
        """Call ``subscriber`` whenever the signal is sent."""
        self._subscribers.append(subscriber)

    def send(self, *arguments: P.args, **options: P.kwargs) -> None:
        """Call all subscribers."""
        for subscriber in self._subscribers:
            subscriber(*arguments, **options)


class AwaitedObservers:
    """Observers whose subscribers may be asynchronous; they run one after the other.

    Examples
    --------
    >>> import asyncio
    >>> heard, signal = [], AwaitedObservers()
    >>> async def late():
    ...     heard.append("late")
    >>> signal.subscribe(late)
    >>> signal.subscribe(lambda: heard.append("soon"))
    >>> asyncio.run(signal.send())
    >>> heard
    ['late', 'soon']
    """

    def __init__(self) -> None:
        self._subscribers: list[Callable[[], Awaitable[None] | None]] = []

    def subscribe(self, subscriber: Callable[[], Awaitable[None] | None]) -> None:
        """Call ``subscriber`` whenever the signal is sent."""
        self._subscribers.append(subscriber)

    async def send(self) -> None:
        """Call all subscribers in order, and await the asynchronous ones."""
        for subscriber in self._subscribers:
            answer = subscriber()
            if inspect.isawaitable(answer):
                await answer
