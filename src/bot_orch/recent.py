"""A dictionary of bounded size that forgets its oldest entry."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Newest(OrderedDict[_Key, _Value]):
    """The entries that were set last, at most ``most``; setting a key again makes it the newest.

    Examples
    --------
    >>> seen = Newest(2)
    >>> seen["a"], seen["b"], seen["a"], seen["c"] = 1, 2, 3, 4
    >>> dict(seen)
    {'a': 3, 'c': 4}
    """

    def __init__(self, most: int, entries: Iterable[tuple[_Key, _Value]] = ()) -> None:
        super().__init__()
        self._most = most
        for key, value in entries:
            self[key] = value

    def __setitem__(self, key: _Key, value: _Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)

    def __reduce__(self) -> tuple[type[Newest[_Key, _Value]], tuple[int, list[tuple[_Key, _Value]]]]:
        return type(self), (self._most, list(self.items()))
