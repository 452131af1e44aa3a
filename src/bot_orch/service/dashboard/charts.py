"""Series of the charts, computed from a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.service.dashboard.timeline import Bucket, Ended, Timeline
from bot_orch.survival.models.kaplan_meier import completion_survival, life_table

__all__ = ["chart_data", "regret", "survival_steps"]

_WINDOW = 15
_FEWEST = 3
_MOST_STEPS = 80


def chart_data(timeline: Timeline) -> dict[str, Any]:
    """Series for every chart; ``null`` where there is nothing to show."""
    buckets = (
        timeline.buckets[:-1] if len(timeline.buckets) > _FEWEST else timeline.buckets
    )  # the last one is incomplete
    made = np.array([bucket.decisions.sum() for bucket in buckets])
    return {
        "agents": list(timeline.agents),
        "width_s": timeline.width_us / 1e6,
        "t": [bucket.start_us / 1e6 for bucket in buckets],
        "share": _columns([b.decisions for b in buckets], made),
        "propensity": _columns([b.propensity for b in buckets], made),
        "distance": _columns([b.distance for b in buckets], made),
        "reward": _ratios(_trailing(buckets, "reward"), _trailing(buckets, "rewarded")),
        "regret": regret(buckets),
        "cost": _cumulated([b.cost_usd for b in buckets]),
        "survival": [survival_steps(timeline.times.get(name, ())) for name in timeline.agents],
        "alarms": [{"t": a.time_us / 1e6, "agent": a.agent} for a in timeline.alarms],
    }


def regret(buckets: Sequence[Bucket]) -> list[float]:
    """Estimate of the cumulative regret against the best single agent.

    An agent's value is the self-normalised inverse propensity (SNIPS) estimate of reward - lambda W - cost over a
    trailing window; the best agent of the window is compared with what was earned.
    """
    total, found = 0.0, []
    weight, weighted = _trailing(buckets, "weight"), _trailing(buckets, "weighted")
    seen = _trailing(buckets, "rewarded")
    for k, bucket in enumerate(buckets):
        known = seen[k] >= _FEWEST
        if known.any() and bucket.settled:
            total += bucket.settled * float((weighted[k][known] / weight[k][known]).max()) - bucket.earned
        found.append(round(total, 4))
    return found


def survival_steps(times: Sequence[Ended]) -> list[list[float]] | None:
    """Kaplan-Meier curve of completion: (seconds, share not completed); the final share failed or was censored."""
    if len(times) < _FEWEST:
        return None
    table = life_table([each.elapsed_s for each in times], [int(each.cause) for each in times])
    curve = completion_survival(table)
    pairs = list(zip(curve.times_s.tolist(), curve.levels.tolist(), strict=True))
    keep = sorted({*np.linspace(0, len(pairs) - 1, min(len(pairs), _MOST_STEPS)).astype(int).tolist()})
    return [[round(pairs[index][0], 6), round(pairs[index][1], 4)] for index in keep]


def _trailing(buckets: Sequence[Bucket], name: str) -> Floats:
    """Moving sums over the last few buckets."""
    if not buckets:
        return np.zeros((0, 0))
    sums = np.cumsum([getattr(bucket, name) for bucket in buckets], axis=0)
    before = np.vstack([np.zeros((_WINDOW, sums.shape[1])), sums])[: len(sums)]
    trailing: Floats = sums - before
    return trailing


def _columns(rows: Sequence[Floats], made: Floats) -> list[list[float | None]]:
    """One list per agent: values per decision of the bucket."""
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
