"""Charts and tables as CSV: a chart has one row per time and agent."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from io import StringIO
from typing import Any

CHARTS = {"share": "share", "propensity": "propensity", "reward": "reward", "cost": "usd"}
"""Charts, and the name of their value in a file."""


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV, the first is the header.

    Examples
    --------
    >>> print(csv_text(chart_rows("share", {"agents": ["a"], "t": [0.5, 1.5], "share": [[1.0, None]]})))
    time,agent,share
    1970-01-01T00:00:00.500Z,a,1.0
    <BLANKLINE>
    """
    out = StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def chart_rows(name: str, data: dict[str, Any]) -> Iterator[Sequence[object]]:
    """The points of a chart; intervals without data have no rows."""
    yield ["time", "agent", CHARTS[name]]
    for agent, values in zip(data["agents"], data[name], strict=False):  # no values at all without decisions
        points = zip(data["t"], values, strict=True)
        yield from ([_time(t), agent, value] for t, value in points if value is not None)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
