"""Reward against dollars: every figure with a budget shows the hull of fixed agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["plot_hull"]


def plot_hull(axis: Any, vertices: Sequence[tuple[float, float]]) -> None:
    """The hull as a line; straight in dollars, so curved on a logarithmic axis."""
    cost, reward = (np.array(each, dtype=float) for each in zip(*vertices, strict=True))
    grid = np.unique(np.concatenate([np.geomspace(max(cost[0], 1e-12), max(cost[-1], 1e-12), 200), cost]))
    axis.plot(
        grid, np.interp(grid, cost, reward), color="black", linestyle="--", linewidth=1.3, label="hull of fixed agents"
    )
