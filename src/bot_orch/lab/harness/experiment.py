"""Definition of an experiment: settings as data, a pure ``run`` per unit of work, then rows, tables and figures.

Every :class:`Experiment` that a module under :mod:`bot_orch.lab.paper` defines is discovered; no list is kept.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.lab.harness.tables import ResultRow, TableView

Payload = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scale:
    """Amount of work: ``quick`` is for a first look and for tests; ``seeds`` overrides the experiment's own."""

    quick: bool = False
    seeds: int | None = None

    def n_seeds(self, full: int = 600, quick: int = 5) -> int:
        """Number of seeds: 600 by default, more than the paper's 30 and 5, so that ours decide no verdict."""
        return self.seeds if self.seeds is not None else quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Unit:
    """One independent piece of work. ``params`` are plain JSON values, the only input of ``run``."""

    key: str
    params: Mapping[str, Any] = field(default_factory=dict)


#: Payloads by unit key, in the order of the units.
Results = Mapping[str, Payload]


@dataclass(frozen=True, slots=True)
class FigureView:
    """A figure: its file name, caption, and a function that draws it."""

    name: str
    caption: str
    draw: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named set of units, and functions that evaluate their results."""

    id: str
    title: str
    about: str
    _: KW_ONLY
    units: Callable[[Scale], Sequence[Unit]]
    run: Callable[[Mapping[str, Any]], Payload]
    rows: Callable[[Results], list[ResultRow]]
    tables: Sequence[TableView] = ()
    figures: Callable[[Results], list[FigureView]] = lambda results: []  # noqa: ARG005
    notes: Callable[[Results], list[str]] = lambda results: []  # noqa: ARG005
    #: More rows and notes, from the rows of all experiments of the run.
    conclude: Callable[[Sequence[ResultRow]], tuple[list[ResultRow], list[str]]] | None = None
    order: int = 100
    why: str = ""  # one sentence for the summary: why published numbers are met or missed
    source: str = ""  # what of the paper it reproduces, such as "Table 3, Figure 1"; empty if nothing


@lru_cache(maxsize=1)
def discover() -> dict[str, Experiment]:
    """Every experiment by id, in reading order: the constants of modules under :mod:`bot_orch.lab.paper`."""
    package = importlib.import_module("bot_orch.lab.paper")
    names = [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    found = {value.id: value for value in values if isinstance(value, Experiment)}
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))


def find(ids: Sequence[str] | None) -> list[Experiment]:
    """The named experiments; a prefix such as ``triage`` selects all that start with it. None selects all."""
    known = discover()
    if not ids:
        return list(known.values())
    chosen: dict[str, Experiment] = {}
    for name in ids:
        hits = {key: e for key, e in known.items() if key == name or key.startswith(f"{name}-")}
        if not hits:
            raise InvalidInputError("--only", f"no experiment {name!r}", f"choose from {', '.join(known)}")
        chosen |= hits
    return [experiment for key, experiment in known.items() if key in chosen]
