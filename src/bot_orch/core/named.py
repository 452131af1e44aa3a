"""Features by name: ``Task(features={"tokens": 312, "lang": "de"})`` becomes a vector.

The first task says which names there are and which of them are categories. Columns are in the order of the names; a
number has one column, a category as many as there are :data:`SLOTS`, of which the hash of its value selects one. The
log and the state keep the names, and the numbers of every task.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bot_orch.errors import InvalidInputError

if TYPE_CHECKING:
    from bot_orch.core.settings import Settings

SLOTS = 8  # columns of a category
_CATEGORY = "="  # ends the names of categories


def names_of(features: Mapping[str, Any]) -> tuple[str, ...]:
    """The sorted names; those of categories (texts, true and false) end in ``=``.

    Examples
    --------
    >>> names_of({"tokens": 312, "lang": "de"})
    ('lang=', 'tokens')
    """
    for name, value in features.items():
        if value is None:
            remedy = "pass a number or a text with the first task, which says what kinds there are, or leave it out"
            raise InvalidInputError(f"task.features.{name}", "is None", remedy)
    return tuple(f"{name}{_CATEGORY}" if isinstance(features[name], str | bool) else name for name in sorted(features))


def names_of_all(tasks: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names in several tasks; the first value of a name says its kind.

    Examples
    --------
    >>> names_of_all([{"tokens": 312, "lang": None}, {"lang": "de"}])
    ('lang=', 'tokens')
    """
    found: dict[str, Any] = {}
    for features in tasks:
        found |= {name: value for name, value in features.items() if name not in found and value is not None}
    return names_of(found)


def columns_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """What each number of a vector is.

    Examples
    --------
    >>> columns_of(("tokens", "urgent="))[:3]
    ('tokens', 'urgent=0', 'urgent=1')
    """
    slots = range(SLOTS)
    return tuple(
        column
        for name in names
        for column in ([f"{name}{slot}" for slot in slots] if name.endswith(_CATEGORY) else [name])
    )


def check_late(features: Mapping[str, Any], settings: Settings) -> None:
    """Refuse features by name after tasks without features, where their number was not stated either."""
    if settings.n_features is None:
        n = len(columns_of(names_of(features)))
        remedy = f"pass n_features={n} (router.n_features) from the start: 1 for a number, {SLOTS} for a category"
        raise InvalidInputError("task.features", "are by name, and the first task had no features", remedy)


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
        if name != marked and isinstance(value, float) and math.isnan(value):
            value = None  # a missing text of a data frame
        if (name != marked) is not isinstance(value, str | bool) and value is not None:
            wanted = "a text" if name != marked else "a number"
            raise InvalidInputError(f"task.features.{name}", f"is {value!r}", f"pass {wanted}, as with the first task")
        if name == marked:
            found.append(math.nan if value is None else float(value))
        else:
            slot = None if value is None else zlib.crc32(str(value).encode()) % SLOTS
            found += [float(slot == each) for each in range(SLOTS)]
    return tuple(found)
