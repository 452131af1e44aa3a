"""What a comparison of two policies needs of each replay: sums by group of tasks, running totals, and a net reward.

Seeds reorder the same tasks, so their spread alone says nothing about other tasks. Groups of tasks do: the tasks of a
set are divided into groups at random, the same for every policy, and the spread of paired differences over groups is
that of a new sample of tasks.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.replay_metrics import Reader, dollars, fixed_agents, score
from bot_orch.rng import generator

__all__ = ["agents_on_plane", "fixed_agent", "net_weight", "scored", "shadow_price", "task_groups"]

_GROUPS = 40
_POINTS = 200


def scored(replay: Replay, read: Reader, **options: Any) -> dict[str, Any]:
    """:func:`score` with its options, and with ``groups`` and ``totals`` of reward, dollars and ``net``.

    ``net`` is reward minus :func:`net_weight` times dollars; a metric only where that weight is not zero.
    """
    found = score(replay, read, **options)
    weight = net_weight(replay)
    values = {"reward": replay.matrix.reward}
    if replay.matrix.cost_usd is not None:
        values["cost_usd"] = dollars(replay)
    if weight:
        values["net"] = replay.matrix.reward - weight * dollars(replay)
        found["metrics"]["net"] = read(values["net"]).mean(axis=0).tolist()
        found["net_weight"] = weight
    which = task_groups(replay.matrix)[replay.rows]
    at = np.unique(np.linspace(0, replay.rounds - 1, min(_POINTS, replay.rounds)).round().astype(int))
    found["groups"], found["totals"] = {}, {"round": (at + 1).tolist()}
    for name, array in values.items():
        got = read(array)
        count = np.bincount(which.reshape(-1))
        total = np.bincount(which.reshape(-1), got.reshape(-1), len(count))
        found["groups"][name] = {"n": count.tolist(), "sum": total.tolist()}
        found["totals"][name] = np.cumsum(got.mean(axis=1))[at].tolist()
    return found


def task_groups(matrix: Matrix) -> Ints:
    """The group of every task, (T,): at most forty groups of about equal size, drawn at random."""
    shuffled = generator("arena groups", matrix.name).permutation(matrix.n_tasks)
    found = np.empty(matrix.n_tasks, dtype=np.int64)
    found[shuffled] = np.arange(matrix.n_tasks) % min(_GROUPS, matrix.n_tasks)
    return found


def net_weight(replay: Replay) -> float:
    """Reward units per dollar: the cost weight, or what a further dollar buys from fixed agents at the budget."""
    if replay.matrix.cost_usd is None:
        return 0.0
    if replay.setup.cost_weight or replay.setup.budget_usd is None:
        return replay.setup.cost_weight
    return shadow_price(fixed_agents(replay)["hull"], replay.setup.budget_usd)


def shadow_price(vertices: list[tuple[float, float]], budget: float) -> float:
    """The slope of the hull of fixed agents at a budget; 0 beyond its end.

    Examples
    --------
    >>> hull = [(1.0, 0.5), (3.0, 0.9), (7.0, 1.0)]
    >>> [round(shadow_price(hull, budget), 3) for budget in (0.5, 2.0, 5.0, 9.0)]
    [0.2, 0.2, 0.025, 0.0]
    """
    for (cost, reward), (dearer, higher) in pairwise(vertices):
        if budget < dearer:
            return (higher - reward) / (dearer - cost)
    return 0.0


def fixed_agent(replay: Replay, agent: int) -> Reader:
    """Always the same agent; a task it cannot take goes to a random one that can."""
    eligible = replay.matrix.eligible

    def read(values: Floats) -> Floats:
        known = eligible & np.isfinite(values)
        count = known.sum(axis=1)
        anyone = np.where(count > 0, np.where(known, values, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)
        got: Floats = np.where(eligible[:, agent], values[:, agent], anyone)[replay.rows]
        return got

    return read


def agents_on_plane(replay: Replay) -> dict[str, Any]:
    """``fixed``: names, dollars and reward of every agent and the hull of them; nothing where dollars are unknown."""
    if replay.matrix.cost_usd is None:
        return {}
    return {"fixed": {"names": list(replay.matrix.agents), **fixed_agents(replay)}}
