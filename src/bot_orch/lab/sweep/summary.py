"""A sweep as text: a table per environment and metric, policies down, lambda across."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

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
    """The metric to look at first: net utility where alignment counts, else reward."""
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
