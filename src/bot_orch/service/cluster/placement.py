"""Placement of routers on processes: a pure function of living processes, current owners and load.

Every process computes it for itself from the same table. Processes that look at different moments may disagree for a
moment; leases keep that harmless.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

IDLE = 0.01  #: Weight of a router without traffic, in processors: idle routers are spread by number.
_MARGIN = 0.1  # difference between the busiest and the least busy, relative to the busiest, that is left alone
_WORTH = 0.25  # a router moves only if so much of its weight is taken off the busiest process


class RouterLoad(NamedTuple):
    """A router as the table shows it.

    Parameters
    ----------
    owner
        The process that serves it; ``None`` if none does.
    load
        Processors that it keeps busy.
    heir
        The process for which its owner has left it.
    """

    owner: int | None = None
    load: float = 0.0
    heir: int | None = None


def place(routers: Mapping[str, RouterLoad], processes: Collection[int]) -> dict[str, int]:
    """The process of every router; empty without processes.

    A router stays where it is, unless its process is gone or a move makes the busiest process clearly less busy. One
    without an owner goes to its heir, or else to the least busy process.

    Examples
    --------
    >>> place({"a": RouterLoad(1), "b": RouterLoad(1), "c": RouterLoad(9)}, [1, 2])
    {'a': 1, 'b': 1, 'c': 2}
    >>> place({"a": RouterLoad(1), "b": RouterLoad(1, load=0.8), "c": RouterLoad(1)}, [1, 2])
    {'a': 2, 'b': 1, 'c': 2}
    """
    if not processes:
        return {}
    placed = {name: _stays(held, processes) for name, held in routers.items()}
    weight = {name: IDLE + max(0.0, held.load) for name, held in routers.items()}
    busy = dict.fromkeys(sorted(processes), 0.0)
    for name, process in placed.items():
        if process is not None:
            busy[process] += weight[name]
    for name in sorted((each for each, process in placed.items() if process is None), key=lambda n: (-weight[n], n)):
        placed[name] = _least(busy)
        busy[_least(busy)] += weight[name]
    found = {name: process for name, process in placed.items() if process is not None}
    while (move := _better(found, weight, busy)) is not None:
        name, goal = move
        busy[found[name]] -= weight[name]
        busy[goal] += weight[name]
        found[name] = goal
    return found


def _stays(held: RouterLoad, processes: Collection[int]) -> int | None:
    if held.owner is not None:
        return held.owner if held.owner in processes else None
    return held.heir if held.heir in processes else None


def _better(
    placed: Mapping[str, int], weight: Mapping[str, float], busy: Mapping[int, float]
) -> tuple[str, int] | None:
    """The move that relieves the busiest process most, if it helps enough."""
    most, goal = max(busy, key=lambda each: (busy[each], -each)), _least(busy)
    apart = busy[most] - busy[goal]
    if apart <= _MARGIN * busy[most]:
        return None
    gain = {name: min(weight[name], apart - weight[name]) for name, process in placed.items() if process == most}
    worth = [name for name, gained in gain.items() if gained >= _WORTH * weight[name]]
    best = min(worth, key=lambda name: (-gain[name], name), default=None)
    return None if best is None else (best, goal)


def _least(busy: Mapping[int, float]) -> int:
    return min(busy, key=lambda each: (busy[each], each))
