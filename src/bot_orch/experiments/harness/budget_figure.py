"""Reward against dollars: every figure with a budget shows the hull of fixed agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bot_orch.experiments.harness.figures import new_figure

__all__ = ["draw_frontier", "plot_hull"]

_COLORS = ("#00796b", "#c62828", "#1a4fa0", "#8e24aa", "#ef6c00", "#5d4037", "#f9a825", "#689f38")
_MARKERS = "osD^vP*X"


def plot_hull(axis: Any, vertices: Sequence[tuple[float, float]]) -> None:
    """The hull as a line; straight in dollars, so curved on a logarithmic axis."""
    cost, reward = (np.array(each, dtype=float) for each in zip(*vertices, strict=True))
    grid = np.unique(np.concatenate([np.geomspace(max(cost[0], 1e-12), max(cost[-1], 1e-12), 200), cost]))
    axis.plot(
        grid, np.interp(grid, cost, reward), color="black", linestyle="--", linewidth=1.3, label="hull of fixed agents"
    )


def draw_frontier(
    points: Mapping[str, tuple[float, float]],
    agents: Mapping[str, tuple[float, float]],
    vertices: Sequence[tuple[float, float]],
    *,
    budget: float,
) -> Any:
    """Policies and single agents as (mean cost, mean reward), with the hull and the budget."""
    figure, axes = new_figure(1, 1, 7.5, 4.2)
    axis = axes[0, 0]
    plot_hull(axis, vertices)
    axis.axvline(budget, color="#9e9e9e", linestyle=":", label="budget")
    axis.plot(*zip(*agents.values(), strict=True), ".", color="#90a4ae", markersize=6, label="single agents")
    for index, (name, (cost, reward)) in enumerate(points.items()):
        style = {"color": _COLORS[index % len(_COLORS)], "marker": _MARKERS[index % len(_MARKERS)]}
        axis.plot([cost], [reward], linestyle="", label=name, markeredgecolor="black", markersize=7, **style)
    axis.set_xscale("log")
    axis.set_xlabel("dollars per task")
    axis.set_ylabel("mean reward")
    figure.legend(loc="outside right center", fontsize=7)
    return figure
