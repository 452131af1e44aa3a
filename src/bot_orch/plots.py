"""Figures with ``matplotlib`` (extra ``notebook``): a router's log, and the results of an arena.

Each function returns a new ``matplotlib.figure.Figure`` and leaves ``pyplot`` alone. A router's recent rounds are
``router.plot(kind)``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bot_orch.core.events import SETTLING, DecisionMade, FeedbackGiven
from bot_orch.errors import InvalidInputError
from bot_orch.frames import opened
from bot_orch.lab.arena.league import Results, league, read_results, without_conditions
from bot_orch.lab.arena.plots import draw_curves, draw_league, draw_plane, draw_set, has_plane
from bot_orch.log.log import Log
from bot_orch.router.plots import Kind, plot
from bot_orch.types import Decision, Outcome

__all__ = ["plot_curves", "plot_league", "plot_log", "plot_plane", "plot_set"]


def plot_log(log: Log | str | Path, kind: Kind = "shares", *, window: int | None = None) -> Any:
    """Moving averages per agent over the decisions of a log: ``shares``, ``rewards`` or ``distances``."""
    rounds: dict[str, tuple[Decision, Outcome | None]] = {}
    with opened(log) as source:
        for row in source.read():
            if not any(row.holds(each) for each in (DecisionMade, FeedbackGiven)):
                continue
            event = row.event()
            if isinstance(event, DecisionMade):
                rounds[event.id] = (event.decision(), None)
            elif isinstance(event, FeedbackGiven) and event.decision_id in rounds:
                first = event.effect in SETTLING or event.effect == "replaced"
                if first or rounds[event.decision_id][1] is None:
                    rounds[event.decision_id] = (rounds[event.decision_id][0], event.outcome())
    return plot(list(rounds.values()), kind, window=window)


def plot_league(out: str | Path, order: str = "shuffled") -> Any:
    """Mean normalised reward of every policy of an arena, best first; peers are hatched."""
    results = _results(out, order)
    kinds = {key[2]: payload["kind"] for key, payload in results.items()}
    return draw_league(_standings(results, order), kinds, order)


def plot_curves(out: str | Path, order: str = "shuffled") -> Any:
    """Normalised reward so far against rounds, one panel per data set."""
    results = _results(out, order)
    return draw_curves(results, _standings(results, order), order)


def plot_set(out: str | Path, dataset: str, order: str = "shuffled") -> Any:
    """One data set: normalised reward per policy with every seed, and the shares of its favourite agents."""
    results = _results(out, order, dataset)
    return draw_set(results, dataset, order)


def plot_plane(out: str | Path, dataset: str, order: str = "shuffled") -> Any:
    """Reward against dollars of every policy and agent, and the hull of fixed mixes of agents."""
    results = _results(out, order, dataset)
    if not has_plane(results, dataset, order):
        raise InvalidInputError("dataset", f"{dataset!r} has no costs", "add costs to it and run the arena again")
    return draw_plane(results, dataset, order)


def _results(out: str | Path, order: str, dataset: str | None = None) -> Results:
    results = without_conditions(read_results(out))
    orders = sorted({key[1] for key in results})
    if order not in orders:
        raise InvalidInputError("order", f"has no results for {order!r}", f"choose one of {', '.join(orders)}")
    names = sorted({key[0] for key in results if key[1] == order})
    if dataset is not None and dataset not in names:
        raise InvalidInputError("dataset", f"{dataset!r} is not in {out}", f"choose one of {', '.join(names)}")
    return results


def _standings(results: Results, order: str) -> Any:
    standings = league(results, order)
    if not standings:
        raise InvalidInputError("order", f"has no league for {order!r}", "its sets hold no policy to rank")
    return standings
