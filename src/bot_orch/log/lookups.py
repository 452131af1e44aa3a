"""Batched lookups in a log, by keys and refs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from bot_orch.log.log import Log, Row

__all__ = ["ARCHIVED", "NOTHING", "Found", "Wanted", "look_up", "together"]


class Wanted(NamedTuple):
    """A lookup: events by keys, rows by refs."""

    keys: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()


NOTHING = Wanted()
ARCHIVED = "archived"
"""The kind of a row that used a key and was moved to an archive: only its number and digest are known."""


class Found(NamedTuple):
    """Result of a lookup; unknown keys are omitted."""

    keys: dict[str, Row]
    refs: dict[str, list[Row]]


def look_up(log: Log, wanted: Wanted) -> Found:
    """Look up committed rows; a row found by its key carries key and digest.

    Examples
    --------
    >>> from bot_orch.log.stores.memory import MemoryLog
    >>> log = MemoryLog()
    >>> log.append([Row(1, 5, "kind", "a", b"", "key", b"digest")])
    >>> log.commit()
    >>> found = look_up(log, Wanted(("key", "other"), ("a", "b")))
    >>> found.keys["key"].digest, list(found.keys), len(found.refs["a"]), found.refs["b"]
    (b'digest', ['key'], 1, [])
    """
    at_once: Callable[[Wanted], Found] | None = getattr(log, "look_up", None)  # PostgreSQL: one query for all of it
    if at_once is not None:
        return at_once(wanted)
    used = {key: known for key in wanted.keys if (known := log.find(key)) is not None}
    rows = {key: log.row(seq) or Row(seq, 0, ARCHIVED, "", b"") for key, (seq, _) in used.items()}
    return Found(
        {key: row._replace(key=key, digest=used[key][1]) for key, row in rows.items()},
        {ref: log.about(ref) for ref in wanted.refs},
    )


def together(wishes: Iterable[Wanted]) -> Wanted:
    """Merge lookups into one without duplicates.

    Examples
    --------
    >>> together([Wanted(("a",)), Wanted(("a", "b"), ("r",)), NOTHING])
    Wanted(keys=('a', 'b'), refs=('r',))
    """
    every = tuple(wishes)
    keys = dict.fromkeys(key for wish in every for key in wish.keys)
    return Wanted(tuple(keys), tuple(dict.fromkeys(ref for wish in every for ref in wish.refs)))
