"""Features by name: ``Task(features={"tokens": 312, "lang": "de"})`` becomes a vector.

The first task says which names there are and which of them are categories. Columns are in the order of the names; a
number has one column, a category as many as there are :data:`SLOTS`, of which the hash of its value selects one.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.types import Task

SLOTS = 8  # columns of a category
_CATEGORY = "="  # ends the names of categories


def names_of(features: Mapping[str, Any]) -> tuple[str, ...]:
    """The sorted names; those of categories (texts, true and false) end in ``=``.

    Examples
    --------
    >>> names_of({"tokens": 312, "lang": "de"})
    ('lang=', 'tokens')
    """
    return tuple(f"{name}{_CATEGORY}" if isinstance(features[name], str | bool) else name for name in sorted(features))


def vector_of(features: Mapping[str, Any], names: tuple[str, ...]) -> tuple[float, ...]:
    """The numbers of a task; a name that it lacks, or that is None, is missing.

    Examples
    --------
    >>> vector_of({"tokens": 312}, ("tokens", "urgent="))
    (312.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    """
    plain = [name.removesuffix(_CATEGORY) for name in names]
    if unknown := sorted(set(features).difference(plain)):
        problem = f"has {', '.join(map(repr, unknown))}, which the first task did not"
        raise InvalidInputError("task.features", problem, f"pass {', '.join(map(repr, plain))} with the first task on")
    found: list[float] = []
    for name, marked in zip(plain, names, strict=True):
        value = features.get(name)
        if (name != marked) is not isinstance(value, str | bool) and value is not None:
            wanted = "a text" if name != marked else "a number"
            raise InvalidInputError(f"task.features.{name}", f"is {value!r}", f"pass {wanted}, as with the first task")
        if name == marked:
            found.append(math.nan if value is None else float(value))
        else:
            slot = None if value is None else zlib.crc32(str(value).encode()) % SLOTS
            found += [float(slot == each) for each in range(SLOTS)]
    return tuple(found)


def numbered(task: Task, names: tuple[str, ...]) -> Task:
    """The task with a vector instead of features by name; without ``names`` its own say which there are."""
    if not isinstance(task.features, Mapping):
        return task
    return replace(task, features=vector_of(task.features, names or names_of(task.features)))
