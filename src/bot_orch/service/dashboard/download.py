"""Charts and tables as CSV: a chart has one row per time and agent, or constraint."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from io import StringIO
from typing import Any

CHARTS = {
    "share": "share",
    "propensity": "propensity",
    "reward": "reward",
    "regret": "regret",
    "distance": "distance",
    "survival": "not_completed",
    "cost": "usd",
    "multipliers": "multiplier",
}
"""Charts, and the name of their value in a file."""

_KEYS = {"regret": (), "multipliers": ("constraint", "unit")}


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
    yield ["seconds" if name == "survival" else "time", *_KEYS.get(name, ("agent",)), CHARTS[name]]
    yield from _points(name, data)


def _points(name: str, data: dict[str, Any]) -> Iterator[list[object]]:
    if name == "regret":
        yield from ([_time(t), value] for t, value in zip(data["t"], data["regret"], strict=False))
        return
    if name == "multipliers":
        for each in data["multipliers"]:
            points = zip(data["t"], each["values"], strict=True)
            yield from ([_time(t), each["constraint"], each["unit"], v] for t, v in points if v is not None)
        return
    for index, agent in enumerate(data["agents"]):
        if name == "survival":
            yield from ([seconds, agent, value] for seconds, value in data["survival"][index] or ())
        elif data[name]:
            points = zip(data["t"], data[name][index], strict=True)
            yield from ([_time(t), agent, value] for t, value in points if value is not None)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
