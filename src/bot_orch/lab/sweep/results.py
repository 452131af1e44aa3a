"""A sweep as text and as a picture: policies down or as lines, lambda across."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from bot_orch.lab.harness.figures import new_figure, series
from bot_orch.lab.harness.tables import ResultRow
from bot_orch.lab.sweep.spec import Sweep

_SHOWN = {
    "reward": "reward per round",
    "net_utility": "net utility per round, reward - {score:g} * alignment cost",
}


def summary(sweep: Sweep, rows: Sequence[ResultRow]) -> str:
    """Means over seeds, with half the width of their 95 % confidence interval."""
    parts = [f"{sweep.name}: {sweep.seeds} seeds; mean ± 95 % confidence interval; the best of a table has a *\n"]
    for label, protocol in places(rows):
        here = [row for row in rows if (row.environment, row.protocol) == (label, protocol)]
        for metric, title in _SHOWN.items():
            chosen = [row for row in here if row.metric == metric]
            if chosen and (metric == "reward" or sweep.score_lambda > 0.0):
                head = f"{label} ({protocol}): {title.format(score=sweep.score_lambda)}"
                parts.append(f"{head}\n{_table(chosen)}")
    return "\n".join(parts)


def places(rows: Iterable[ResultRow]) -> list[tuple[str, str]]:
    """Every (environment, protocol), in order."""
    return list(dict.fromkeys((row.environment, row.protocol) for row in rows))


def headline(sweep: Sweep, rows: Sequence[ResultRow]) -> str:
    """The primary metric: net utility if alignment counts, else reward."""
    return "net_utility" if sweep.score_lambda > 0.0 and any(r.metric == "net_utility" for r in rows) else "reward"


def _table(rows: Sequence[ResultRow]) -> str:
    values = sorted({row.lambda_ for row in rows})
    best = max(row.mean for row in rows)
    cells = {(row.method, row.lambda_): _cell(row, best) for row in rows}
    methods = list(dict.fromkeys(row.method for row in rows))
    lines = [["", *(f"lambda {value:g}" for value in values)]]
    lines += [[method, *(cells.get((method, value), "") for value in values)] for method in methods]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = [
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]).rstrip()
        for line in lines
    ]
    return "".join(f"  {line}\n" for line in padded)


def _cell(row: ResultRow, best: float) -> str:
    spread = "" if math.isnan(row.ci95) else f" ± {row.ci95:.4f}"
    return f"{row.mean:.4f}{spread}{'*' if row.mean == best else ' '}"


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
        look = series(index)
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
            look = series(index, linestyle="none")
            axis.errorbar([own[method].mean], [index], xerr=[_spread(own[method])], capsize=3, **look)
    axis.set_yticks(range(len(methods)), methods)
    axis.invert_yaxis()


def _spread(row: ResultRow) -> float:
    return 0.0 if math.isnan(row.ci95) else row.ci95
