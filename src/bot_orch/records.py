"""Quick construction of frozen dataclasses on paths that run for every decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, make_dataclass
from typing import Any, TypeVar

_Record = TypeVar("_Record")


def builder(cls: type[_Record]) -> Callable[..., _Record]:
    """A function that constructs ``cls`` from the positional values of its fields, without ``__post_init__``.

    The ``__init__`` of a frozen dataclass sets every field through ``object.__setattr__``, which takes about five times
    as long as plain assignment. Here a twin with the same slots is filled by assignment and then becomes a ``cls``.
    What a default factory returns is made once.

    Examples
    --------
    >>> from bot_orch.types import RandomKey
    >>> builder(RandomKey)(7, 1)
    RandomKey(stream=7, counter=1)
    """
    known = fields(cls)  # type: ignore[arg-type]
    twin = make_dataclass(cls.__name__, [(each.name, Any) for each in known], slots=True, eq=False, init=False)
    names, values = [each.name for each in known], {f"default_{each.name}": _default(each) for each in known}
    arguments = [name if values[f"default_{name}"] is MISSING else f"{name}=default_{name}" for name in names]
    lines = [f"def build({', '.join(arguments)}):", "    made = new(twin)"]
    lines += [f"    made.{name} = {name}" for name in names]
    space: dict[str, Any] = {"new": object.__new__, "twin": twin, "cls": cls, **values}
    exec("\n".join([*lines, "    made.__class__ = cls", "    return made"]), space)  # noqa: S102  # names of fields
    build: Callable[..., _Record] = space["build"]
    return build


def _default(each: Any) -> Any:
    """The default of a field; MISSING if it has none."""
    return each.default if each.default_factory is MISSING else each.default_factory()
