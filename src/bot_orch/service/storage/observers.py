"""Observers: any number of subscribers to one signal; a subscription never replaces another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

__all__ = ["Observers"]

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
