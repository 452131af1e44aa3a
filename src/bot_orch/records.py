"""Quick construction of frozen dataclasses on paths that run for every decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, field, fields, make_dataclass
from typing import Any, TypeVar

__all__ = ["builder"]

_Record = TypeVar("_Record")


def builder(cls: type[_Record]) -> Callable[..., _Record]:
    """A function that constructs ``cls`` from the positional values of its fields, without ``__post_init__``.

    The ``__init__`` of a frozen dataclass sets every field through ``object.__setattr__``, which takes about five times
    as long as plain assignment. Here a twin with the same slots is filled by assignment and then becomes a ``cls``.

    Examples
    --------
    >>> from bot_orch.types import RandomKey
    >>> builder(RandomKey)(7, 1)
    RandomKey(stream=7, counter=1)
    """
    columns = [(each.name, Any, _copy(each)) for each in fields(cls)]  # type: ignore[arg-type]
    become = {"__post_init__": lambda made: setattr(made, "__class__", cls)}
    twin: Callable[..., _Record] = make_dataclass(cls.__name__, columns, slots=True, eq=False, namespace=become)
    return twin


def _copy(original: Any) -> Any:
    """The default of a field."""
    if original.default_factory is not MISSING:
        return field(default_factory=original.default_factory)
    return field(default=original.default) if original.default is not MISSING else field()
