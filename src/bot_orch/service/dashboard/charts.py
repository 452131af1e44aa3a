"""Series of the charts, computed from a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.service.dashboard.buckets import Bucket, BucketView
from bot_orch.service.dashboard.plane import plane_of
from bot_orch.service.dashboard.regret import regret_line
from bot_orch.service.dashboard.timeline import Ended, Timeline
from bot_orch.survival.kaplan_meier import completion_survival, life_table

_WINDOW = 15
_FEWEST = 3
_MOST_STEPS = 80


def chart_data(timeline: Timeline, view: BucketView) -> dict[str, Any]:
    """Series for every chart; ``null`` where data is missing.

    ``t`` is the middle of each interval. Points further apart than ``gap_s`` are not to be joined by a line.
    """
    buckets = complete(view)
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
        "distance": _columns([b["distance"] for b in buckets], made),
        "reward": _ratios(_trailing(buckets, "reward"), _trailing(buckets, "rewarded")),
        "regret": regret_line(buckets),
        "cost": _cumulated([b["cost_usd"] for b in buckets]),
        "survival": [_survival(timeline, name, view) for name in timeline.agents],
        "plane": plane_of(view, timeline.agents).to_dict(),
        "multipliers": _multipliers(timeline, buckets),
        "alarms": [{"t": a.time_us / 1e6, "agent": a.agent} for a in timeline.alarms if _within(a.time_us, view)],
    }


def _multipliers(timeline: Timeline, buckets: Sequence[Bucket]) -> list[dict[str, Any]]:
    """The mean multiplier of every constraint per interval, in reward per unit."""
    names = dict.fromkeys(name for bucket in buckets for name in bucket.multipliers.values)
    return [
        {
            "constraint": name,
            "unit": timeline.units[name],
            "values": [None if (mean := b.multipliers.mean(name)) is None else round(mean, 6) for b in buckets],
        }
        for name in names
    ]


def complete(view: BucketView) -> list[Bucket]:
    """The buckets without the last one while it is still filling."""
    buckets = view.buckets
    filling = len(buckets) > _FEWEST and buckets[-1].start_us + view.width_us > view.to_us
    return buckets[:-1] if filling else buckets


def survival_steps(times: Sequence[Ended]) -> list[list[float]] | None:
    """Kaplan-Meier curve of completion: (seconds, share not completed); the final share failed or was censored."""
    if len(times) < _FEWEST:
        return None
    table = life_table([each.elapsed_s for each in times], [int(each.cause) for each in times])
    curve = completion_survival(table)
    pairs = list(zip(curve.times_s.tolist(), curve.levels.tolist(), strict=True))
    keep = sorted({*np.linspace(0, len(pairs) - 1, min(len(pairs), _MOST_STEPS)).astype(int).tolist()})
    return [[round(pairs[index][0], 6), round(pairs[index][1], 4)] for index in keep]


def _survival(timeline: Timeline, agent: str, view: BucketView) -> list[list[float]] | None:
    return survival_steps([each for each in timeline.times.get(agent, ()) if _within(each.time_us, view)])


def _within(time_us: int, view: BucketView) -> bool:
    return view.from_us <= time_us <= view.to_us


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
