"""A figure of every number beside the published one: one panel per metric, one group per environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bot_orch.lab.harness.figures import new_figure, style
from bot_orch.lab.harness.tables import ResultRow

__all__ = ["draw_beside"]

_STEP = 0.19


def draw_beside(rows: Sequence[ResultRow], metrics: Mapping[str, str], methods: Sequence[str]) -> Any:
    """Means with a bar of one standard deviation, and the published means as crosses with theirs."""
    figure, axes = new_figure(1, len(metrics), 11.4, 3.3)
    for axis, (metric, title) in zip(axes[0], metrics.items(), strict=True):
        chosen = [row for row in rows if row.metric == metric and row.method in methods]
        places = {name: at for at, name in enumerate(dict.fromkeys(row.environment for row in chosen))}
        for index, method in enumerate(methods):
            mine = [row for row in chosen if row.method == method]
            x = np.array([places[row.environment] for row in mine]) + _STEP * (index - (len(methods) - 1) / 2)
            _ours(axis, x, mine, method=method, index=index)
            _papers(axis, x, mine, label="paper" if index == 0 else "")
        axis.set_xticks(range(len(places)), list(places), rotation=40, ha="right", fontsize=7)
        axis.set_title(title, fontsize=9)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncol=len(methods) + 1)
    return figure


def _ours(axis: Any, x: Any, rows: Sequence[ResultRow], *, method: str, index: int) -> None:
    look = style(method, index)
    shape = {"color": look["color"], "fmt": look["marker"], "markersize": 4, "elinewidth": 1.2}
    axis.errorbar(x, [row.mean for row in rows], [row.std for row in rows], label=method, **shape)


def _papers(axis: Any, x: Any, rows: Sequence[ResultRow], *, label: str) -> None:
    found = [(at, row.paper) for at, row in zip(x, rows, strict=True) if row.paper is not None]
    at = [place + _STEP * 0.4 for place, _ in found]
    means, spreads = ([getattr(paper, name) for _, paper in found] for name in ("mean", "spread"))
    axis.errorbar(at, means, spreads, fmt="x", color="black", markersize=4, elinewidth=0.7, label=label or "_")
