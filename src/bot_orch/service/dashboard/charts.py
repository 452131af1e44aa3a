"""Series of the charts, computed from a timeline; charts and tables as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.service.dashboard.buckets import Bucket, BucketView
from bot_orch.service.dashboard.timeline import Timeline

CHARTS = {"share": "share", "propensity": "propensity", "reward": "reward", "cost": "usd"}
"""Charts, and the name of their value in a file."""
_WINDOW = 15
_FEWEST = 3


def chart_data(timeline: Timeline, view: BucketView, *, highest: float = 1.0) -> dict[str, Any]:
    """Series for every chart; ``null`` where data is missing.

    ``highest`` is the highest reward. ``t`` is the middle of each interval. Points further apart than ``gap_s`` are not
    to be joined by a line.
    """
    buckets = _complete(view)
    made = np.array([bucket["decisions"].sum() for bucket in buckets])
    half_s = view.width_us / 2e6
    return {
        "agents": list(timeline.agents),
        "decisions": view.total("decisions").tolist(),
        "width_s": view.width_us / 1e6,
        "gap_s": _gap_s([b for b, n in zip(buckets, made, strict=True) if n], view.width_us),
        "from": view.from_us / 1e6,
        "to": view.to_us / 1e6,
        "t": [bucket.start_us / 1e6 + half_s for bucket in buckets],
        "share": _columns([b["decisions"] for b in buckets], made),
        "propensity": _columns([b["propensity"] for b in buckets], made),
        "highest": highest,
        "reward": _ratios(_trailing(buckets, "reward"), _trailing(buckets, "rewarded")),
        "cost": _cumulated([b["cost_usd"] for b in buckets]),
        "alarms": [
            {"t": a.time_us / 1e6, "agent": a.agent} for a in timeline.alarms if view.from_us <= a.time_us <= view.to_us
        ],
    }


def _complete(view: BucketView) -> list[Bucket]:
    """The buckets without the last one while it is still filling."""
    buckets = view.buckets
    filling = len(buckets) > _FEWEST and buckets[-1].start_us + view.width_us > view.to_us
    return buckets[:-1] if filling else buckets


def _gap_s(buckets: Sequence[Bucket], width_us: int) -> float:
    """Three times the usual distance between points: traffic that is sparse throughout has no gaps."""
    steps = np.diff([bucket.start_us for bucket in buckets])
    usual_us = float(np.median(steps)) if len(steps) else 0.0
    return max(1.5 * width_us, 3.0 * usual_us) / 1e6


def _trailing(buckets: Sequence[Bucket], name: str) -> Floats:
    """Moving sums over the last few intervals; intervals without a bucket count as zero."""
    if not buckets:
        return np.zeros((0, 0))
    starts = np.array([bucket.start_us for bucket in buckets])
    width = int(np.diff(starts).min()) if len(starts) > 1 else 1
    sums = np.cumsum([bucket[name] for bucket in buckets], axis=0)
    first = np.searchsorted(starts, starts - (_WINDOW - 1) * width)
    before = np.vstack([np.zeros(sums.shape[1]), sums])[first]
    trailing: Floats = sums - before
    return trailing


def _columns(rows: Sequence[Floats], made: Floats) -> list[list[float | None]]:
    """One list per agent: values per decision in each bucket."""
    if not rows:
        return []
    return _ratios(np.array(rows), np.repeat(made[:, None], len(rows[0]), axis=1))


def _ratios(above: Floats, below: Floats) -> list[list[float | None]]:
    if above.size == 0:
        return []
    return [
        [round(float(a / b), 4) if b > 0 else None for a, b in zip(*pair, strict=True)]
        for pair in zip(above.T, below.T, strict=True)
    ]


def _cumulated(rows: Sequence[Floats]) -> list[list[float]]:
    return [] if not rows else np.cumsum(rows, axis=0).T.round(6).tolist()


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
