"""Noticing that two calls on one object overlap, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from bot_orch.errors import ConcurrentUseError

__all__ = ["exclusive"]

P = ParamSpec("P")
R = TypeVar("R")


class _Guarded(Protocol):
    _under_way: dict[str, object]


S = TypeVar("S", bound=_Guarded)


def exclusive(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Refuse a call of ``method`` while another exclusive call on the same object is under way.

    The object keeps an empty dict ``_under_way``; a call puts a token of its own there and takes it out at the end.
    It holds no lock and nobody waits: the second caller gets :class:`~bot_orch.errors.ConcurrentUseError` before the
    method has begun.

    Notes
    -----
    In CPython a thread is switched, and an interrupt (Ctrl-C) raised, after a call or a jump back, never inside
    ``dict.setdefault`` with a string key: of two threads exactly one finds its own token. The token is set inside the
    ``try``, and the ``finally`` calls nothing until it is gone, so that an interrupt cannot leave it behind.

    Examples
    --------
    >>> class Counter:
    ...     def __init__(self):
    ...         self._under_way = {}
    ...     @exclusive
    ...     def again(self):
    ...         return self.again()
    >>> Counter().again()
    Traceback (most recent call last):
    bot_orch.errors.ConcurrentUseError: Counter.again: another call on the same object is under way; ...
    """

    @wraps(method)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        token, under_way = object(), self._under_way
        try:
            if under_way.setdefault("call", token) is not token:
                raise ConcurrentUseError(f"{type(self).__name__}.{method.__name__}")
            return method(self, *args, **kwargs)
        finally:
            if "call" in under_way and under_way["call"] is token:
                del under_way["call"]

    return guarded
