"""Lock-free detection of overlapping calls on one object."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from bot_orch.errors import ConcurrentUseError

P = ParamSpec("P")
R = TypeVar("R")


class _Guarded(Protocol):
    _under_way: dict[str, object]


S = TypeVar("S", bound=_Guarded)


def exclusive(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Reject a call of ``method`` while another exclusive call on the same object is in progress.

    The object has an empty dict ``_under_way``; each call inserts its own token and removes it at the end.
    There is no lock and no waiting: the second caller gets :class:`~bot_orch.errors.ConcurrentUseError` before the
    method starts.

    Notes
    -----
    CPython switches threads and raises interrupts (Ctrl-C) after a call or a backward jump, never inside
    ``dict.setdefault`` with a string key, so exactly one of two threads gets its own token back. The token is set in
    the ``try``, and the ``finally`` makes no call before deleting it, so an interrupt cannot leave it behind.

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
