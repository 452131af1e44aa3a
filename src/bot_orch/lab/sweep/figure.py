"""A sweep as a picture: a panel per environment, lambda along, a line per policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bot_orch.lab.harness.figures import new_figure
from bot_orch.lab.harness.tables import ResultRow
from bot_orch.lab.sweep.spec import Sweep
from bot_orch.lab.sweep.summary import headline, places

_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_COLUMNS = 3


def draw_sweep(sweep: Sweep, rows: Sequence[ResultRow]) -> Any:
    """Means with 95 % confidence intervals; a policy that lambda does not touch is a level line."""
    found = places(rows)
    columns = min(_COLUMNS, len(found))
    lines = -(-len(found) // columns)
    figure, axes = new_figure(lines, columns, 4.2 * columns, 3.2 * lines)
    methods = list(dict.fromkeys(row.method for row in rows))
    for index, (label, protocol) in enumerate(found):
        here = [row for row in rows if (row.environment, row.protocol) == (label, protocol)]
        metric = headline(sweep, here)
        shown = [row for row in here if row.metric == metric]
        axis = axes[index // columns, index % columns]
        draw = _against_lambda if len({row.lambda_ for row in shown}) > 1 else _side_by_side
        draw(axis, shown, methods)
        axis.set_title(f"{label} ({protocol})")
        (axis.set_ylabel if draw is _against_lambda else axis.set_xlabel)(f"{metric.replace('_', ' ')} per round")
    for index in range(len(found), lines * columns):
        axes[index // columns, index % columns].set_axis_off()
    if axes[0, 0].get_legend_handles_labels()[0]:
        axes[0, 0].legend()
    return figure


def _against_lambda(axis: Any, rows: Sequence[ResultRow], methods: Sequence[str]) -> None:
    values = sorted({row.lambda_ for row in rows})
    for index, method in enumerate(methods):
        own = sorted((row for row in rows if row.method == method), key=lambda row: row.lambda_)
        look = _look(index)
        if len(own) == 1:
            axis.axhline(own[0].mean, label=method, color=look["color"], linestyle=look["linestyle"], linewidth=1.2)
        elif own:
            x, y, spread = [r.lambda_ for r in own], [r.mean for r in own], [_spread(r) for r in own]
            axis.errorbar(x, y, yerr=spread, label=method, capsize=2, **look)
    axis.set_xlabel("lambda")
    axis.set_xticks(values)


def _side_by_side(axis: Any, rows: Sequence[ResultRow], methods: Sequence[str]) -> None:
    own = {row.method: row for row in rows}
    for index, method in enumerate(methods):
        if method in own:
            look = {**_look(index), "linestyle": "none"}
            axis.errorbar([own[method].mean], [index], xerr=[_spread(own[method])], capsize=3, **look)
    axis.set_yticks(range(len(methods)), methods)
    axis.invert_yaxis()


def _spread(row: ResultRow) -> float:
    return 0.0 if math.isnan(row.ci95) else row.ci95


def _look(index: int) -> dict[str, Any]:
    line, marker = _LINES[index % len(_LINES)], _MARKERS[index % len(_MARKERS)]
    return {"color": f"C{index % 10}", "linestyle": line, "marker": marker, "markersize": 4, "linewidth": 1.4}
