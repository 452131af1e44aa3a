"""Score a replay against its baselines, and store the data to compare two policies.

The *hull* is the best that is possible without looking at tasks: at a budget, the best mix of two fixed agents whose
mean cost is the budget; over all budgets, the upper convex hull of the agents' (mean cost, mean reward).

Seeds reorder the same tasks, so their spread alone says nothing about other tasks. Groups of tasks do: the tasks of a
set are divided into groups at random, the same for every policy, and the spread of paired differences over groups is
that of a new sample of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.lab.environments.matrix.check import known_mean
from bot_orch.lab.environments.matrix.model import Matrix, RuntimeOutcomes
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.numerics.hull import upper_hull
from bot_orch.rng import generator


@dataclass(frozen=True, slots=True)
class Mix:
    """Agent ``first`` with probability ``weight``, else agent ``second``."""

    first: int
    second: int
    weight: float

    def of(self, values: Floats) -> Floats:
        """The mixed value of per-agent ``values``, last axis."""
        return np.asarray(self.weight * values[..., self.first] + (1.0 - self.weight) * values[..., self.second])


def hull_mix(reward: Floats, cost: Floats, budget: float) -> Mix:
    """The best mix of two agents with mean rewards and mean costs (M,), at a mean cost of at most ``budget``.

    Where even the cheapest agent exceeds the budget, it takes everything.

    Examples
    --------
    >>> hull_mix(np.array([0.5, 0.9]), np.array([1.0, 3.0]), 2.0)
    Mix(first=1, second=0, weight=0.5)
    """
    hull = upper_hull(reward, cost)
    above = next((k for k, agent in enumerate(hull) if cost[agent] > budget), len(hull))
    if above in (0, len(hull)):
        only = hull[max(above - 1, 0)]
        return Mix(only, only, 1.0)
    second, first = hull[above - 1], hull[above]
    return Mix(first, second, float((budget - cost[second]) / (cost[first] - cost[second])))


def frontier(reward: Floats, cost: Floats) -> list[tuple[float, float]]:
    """Vertices (cost, reward) of the hull, by rising cost.

    Examples
    --------
    >>> frontier(np.array([0.5, 0.6, 0.9]), np.array([1.0, 2.5, 3.0]))
    [(1.0, 0.5), (3.0, 0.9)]
    """
    return [(float(cost[agent]), float(reward[agent])) for agent in upper_hull(reward, cost)]


def oracle_at(reward: Floats, cost: Floats, budget: float) -> Ints:
    """The agent per task, (T,), that maximises the sum of rewards (T, M) at a mean cost within the budget.

    Tasks go to the largest reward minus a common multiplier times cost; the multiplier is found by bisection, so the
    result is optimal up to one task.

    Examples
    --------
    >>> oracle_at(np.array([[0.0, 1.0], [0.9, 1.0]]), np.array([[0.0, 1.0], [0.0, 1.0]]), 0.5)
    array([1, 0])
    """
    rows = np.arange(len(reward))

    def chosen(multiplier: float) -> Ints:
        score = reward - multiplier * cost
        best = score.max(axis=1, keepdims=True)
        return np.asarray(np.argmin(np.where(score >= best - 1e-12, cost, np.inf), axis=1))

    if cost[rows, chosen(0.0)].mean() <= budget:
        return chosen(0.0)
    low, high = 0.0, 1.0
    while cost[rows, chosen(high)].mean() > budget and high < 1e12:
        low, high = high, 10.0 * high
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cost[rows, chosen(middle)].mean() > budget else (low, middle)
    return _filled_up(chosen(high), chosen(low), cost, budget)


def _filled_up(agent: Ints, dearer: Ints, cost: Floats, budget: float) -> Ints:
    """Tasks of equal gain per dollar change to the dearer choice while the budget lasts."""
    rows = np.arange(len(agent))
    more = np.flatnonzero(agent != dearer)
    extra = np.cumsum((cost[rows, dearer] - cost[rows, agent])[more])
    spare = budget * len(agent) - cost[rows, agent].sum()
    change = more[extra <= spare + 1e-12]
    return np.asarray(np.where(np.isin(rows, change), dearer, agent))


#: Reads a ``(T, M)`` array along a sequence of choices: ``(rounds, seeds)``, what came (or is expected) each round.
Reader = Callable[[Floats], Floats]
_POINTS = 60


def chosen(replay: Replay, agent: Ints) -> Reader:
    """Read the cells of the agents chosen, ``(rounds, seeds)``."""
    return lambda values: values[replay.rows, agent]


def baseline(replay: Replay, name: str, by: Floats | None = None) -> Reader:
    """``random``, ``best-single`` or ``oracle`` on the tasks of the replay; best is the largest ``by``, the reward.

    The best single agent is the best in hindsight of each seed's rounds, or of each phase where the replay has phases.
    A task it cannot take goes to a random one.
    """
    if name == "random":
        return lambda values: _anyone(replay, values)[replay.rows]
    worth, rows = replay.matrix.reward if by is None else by, replay.rows
    if name == "oracle":
        best = np.nanargmax(np.where(replay.matrix.eligible & np.isfinite(worth), worth, -np.inf), axis=1)
        return lambda values: values[rows, best[rows]]
    worths, edges = filled(replay, worth)[rows], [0, *replay.phases, replay.rounds]
    means = [known_mean(worths[a:b]) for a, b in pairwise(edges)]
    single = np.repeat(
        [np.argmax(np.where(np.isfinite(m), m, -np.inf), axis=-1) for m in means], np.diff(edges), axis=0
    )
    return lambda values: filled(replay, values)[rows, single]


def baseline_readers(replay: Replay, name: str) -> dict[str, Reader]:
    """Readers for the metrics in which a baseline is the best of its kind by that metric instead of by the reward."""
    if name not in ("best-single", "oracle"):
        return {}
    return {metric: baseline(replay, name, by=values) for metric, values in _aims(replay).items()}


def _aims(replay: Replay) -> dict[str, Floats]:
    """Objectives other than the reward, by metric."""
    m = replay.matrix
    found = {} if m.true_reward is None else {"true_reward": m.true_reward}
    if m.runtime is not None:
        found |= {"solved": _ran(m.runtime, m.runtime.event), "par10": -_ran(m.runtime, m.runtime.par10)}
    return found


def _ran(runtime: RuntimeOutcomes, values: Floats) -> Floats:
    return np.where(np.isfinite(runtime.time_s), values, np.nan)


def budget_baseline(replay: Replay, name: str, budget: float) -> Reader:
    """``cheapest``, ``hull`` or ``oracle-budget`` on the tasks of the replay, in hindsight per seed.

    ``hull`` gives expected values of the best mix of two fixed agents.
    """
    rows, seeds = replay.rows, range(replay.rows.shape[1])
    reward, cost = filled(replay, replay.matrix.reward), dollars(replay)
    if name == "oracle-budget":
        best = np.stack([oracle_at(_barred(replay)[rows[:, s]], cost[rows[:, s]], budget) for s in seeds], axis=1)
        return lambda values: values[rows, best]
    means = [(reward[rows[:, s]].mean(axis=0), cost[rows[:, s]].mean(axis=0)) for s in seeds]
    if name == "cheapest":
        cheapest = np.array([int(np.argmin(c)) for _, c in means])
        return lambda values: filled(replay, values)[rows, cheapest]
    mixes = [hull_mix(r, c, budget) for r, c in means]
    return lambda values: np.stack([mixes[s].of(filled(replay, values)[rows[:, s]]) for s in seeds], axis=1)


def fixed_agents(replay: Replay) -> dict[str, list[tuple[float, float]]]:
    """(mean cost, mean reward) of every agent over the tasks played, and the vertices of their hull."""
    rows = replay.rows.reshape(-1)
    reward, cost = filled(replay, replay.matrix.reward)[rows].mean(axis=0), dollars(replay)[rows].mean(axis=0)
    agents = [(float(c), float(r)) for c, r in zip(cost, reward, strict=True)]
    return {"agents": agents, "hull": frontier(reward, cost)}


def dollars(replay: Replay) -> Floats:
    """Dollars of every cell; the agent's mean where unknown."""
    cost = replay.matrix.cost_usd
    assert cost is not None  # noqa: S101 - callers ask only for sets with dollars
    return filled(replay, np.where(np.isfinite(cost), cost, np.nan_to_num(known_mean(cost))))


def _barred(replay: Replay) -> Floats:
    return np.where(replay.matrix.eligible, replay.matrix.reward, -1e6)


def score(
    replay: Replay, read: Reader, *, own: Mapping[str, Reader] | None = None, feature_time: bool = False
) -> dict[str, Any]:
    """Metrics as lists over seeds, shares of agents, and the learning curve.

    ``own`` are readers of single metrics in place of ``read``. With ``feature_time``, the seconds that computing the
    features takes count in ``solved`` and ``par10``.

    ``reward``, ``true_reward``, ``solved``, ``par10``, ``cost_usd`` and ``mean_observed_time`` are means over rounds
    (over those where the value is known), ``late`` the share beyond the latency target if there is one. ``gap`` is
    (par10 - oracle) / (best single - oracle), with one denominator too. ``attempts`` are agents asked per
    round, where there may be several.
    ``normalised`` is (reward - random) / (best single - random), seed by seed in the numerator, with one denominator,
    the mean over seeds. ``regret_best_single`` is best single - reward.
    """
    m = replay.matrix
    random, best = (baseline(replay, name)(m.reward) for name in ("random", "best-single"))
    own = own or {}
    reward = own.get("reward", read)(m.reward)
    room = float((best - random).mean())
    scale = room if room > 1e-12 else np.nan
    metrics = {
        "reward": reward.mean(axis=0),
        "normalised": (reward - random).mean(axis=0) / scale,
        "regret_best_single": (best - reward).mean(axis=0),
        **{name: known_mean(own.get(name, read)(v)) for name, v in _extras(replay, feature_time).items()},
    }
    if "attempts" in own:
        metrics["attempts"] = own["attempts"](m.reward).mean(axis=0)
    if "par10" in metrics:
        metrics["gap"] = _gap(replay, metrics["par10"])
    share = np.stack([read(_column(replay, i)).mean(axis=0) for i in range(m.n_agents)], axis=-1)
    metrics["share_max"] = share.max(axis=-1)
    return {
        "metrics": {name: values.tolist() for name, values in metrics.items() if np.isfinite(values).any()},
        "shares": dict(zip(m.agents, share.T.tolist(), strict=True)),
        "curve": _curve(reward - random, scale),
        "rounds": replay.rounds,
    }


def _gap(replay: Replay, par10: Floats) -> Floats:
    """Relative loss between the oracle (0) and the best single agent (1), per seed."""
    values = -_aims(replay)["par10"]
    single, oracle = (known_mean(baseline(replay, name, by=-values)(values)) for name in ("best-single", "oracle"))
    room = float((single - oracle).mean())
    return (par10 - oracle) / (room if room > 1e-12 else np.nan)


def _extras(replay: Replay, feature_time: bool) -> dict[str, Floats]:
    m = replay.matrix
    found: dict[str, Floats] = {}
    if m.runtime is not None:
        runtime = m.runtime
        if feature_time and replay.inputs is not None and m.feature_cost_s is not None:
            runtime = runtime.after(m.feature_cost_s)
        found = {"solved": _ran(runtime, runtime.event), "par10": _ran(runtime, runtime.par10)}
    others = {"cost_usd": m.cost_usd, "mean_observed_time": m.elapsed_s, "true_reward": m.true_reward}
    target_s = replay.setup.latency_target_s
    if target_s is not None and m.elapsed_s is not None:
        others["late"] = np.where(np.isfinite(m.elapsed_s), m.elapsed_s > target_s, np.nan)
    return {**found, **{name: values for name, values in others.items() if values is not None}}


def _curve(gain: Floats, scale: float) -> dict[str, list[float]]:
    """Cumulative normalised reward at up to sixty rounds."""
    at = np.unique(np.linspace(0, len(gain) - 1, min(_POINTS, len(gain))).round().astype(int))
    so_far = np.cumsum(gain, axis=0)[at] / (at[:, None] + 1.0) / scale
    spread = so_far.std(axis=1, ddof=1) if gain.shape[1] > 1 else np.zeros(len(at))
    return {"round": (at + 1).tolist(), "mean": so_far.mean(axis=1).tolist(), "std": spread.tolist()}


def _anyone(replay: Replay, values: Floats) -> Floats:
    """The expected value of a random eligible agent, per task."""
    return known_mean(np.where(replay.matrix.eligible, values, np.nan), axis=1)


def filled(replay: Replay, values: Floats) -> Floats:
    """The values, for agents that cannot take a task those of a random one that can."""
    return np.where(replay.matrix.eligible, values, _anyone(replay, values)[:, None])


def _column(replay: Replay, agent: int) -> Floats:
    column = np.zeros(replay.matrix.reward.shape)
    column[:, agent] = 1.0
    return column


_GROUPS = 40
_TOTALS = 200


def scored(replay: Replay, read: Reader, **options: Any) -> dict[str, Any]:
    """:func:`score` with its options, and with ``groups`` and ``totals`` of reward, dollars and ``net``.

    ``net`` is reward minus :func:`net_weight` times dollars; a metric only where that weight is not zero.
    """
    found = score(replay, read, **options)
    weight = net_weight(replay)
    values = valued(replay, weight)
    if weight:
        found["metrics"]["net"] = read(values["net"]).mean(axis=0).tolist()
        found["net_weight"] = weight
    which = task_groups(replay.matrix)[replay.rows]
    at = np.unique(np.linspace(0, replay.rounds - 1, min(_TOTALS, replay.rounds)).round().astype(int))
    found["groups"], found["totals"] = {}, {"round": (at + 1).tolist()}
    for name, array in values.items():
        got = read(array)
        found["groups"][name] = by_group(which, got)
        found["totals"][name] = np.cumsum(got.mean(axis=1))[at].tolist()
    return found


def valued(replay: Replay, weight: float) -> dict[str, Floats]:
    """Rewards of every cell, its dollars if they are known, and ``net`` if a dollar has a ``weight``."""
    values = {"reward": replay.matrix.reward}
    if replay.matrix.cost_usd is not None:
        values["cost_usd"] = dollars(replay)
    if weight:
        values["net"] = replay.matrix.reward - weight * values["cost_usd"]
    return values


def by_group(group: Ints, got: Floats) -> dict[str, list[float]]:
    """Number and sum of the values of every group."""
    count = np.bincount(group.reshape(-1))
    return {"n": count.tolist(), "sum": np.bincount(group.reshape(-1), got.reshape(-1), len(count)).tolist()}


def task_groups(matrix: Matrix) -> Ints:
    """The group of every task, (T,): at most forty groups of about equal size, drawn at random."""
    shuffled = generator("arena groups", matrix.name).permutation(matrix.n_tasks)
    found = np.empty(matrix.n_tasks, dtype=np.int64)
    found[shuffled] = np.arange(matrix.n_tasks) % min(_GROUPS, matrix.n_tasks)
    return found


def net_weight(replay: Replay) -> float:
    """Reward units per dollar: the cost weight, or the marginal reward of a dollar at the budget."""
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
    """Always the same agent; a task it cannot take goes to a random eligible one."""
    return lambda values: filled(replay, values)[replay.rows, agent]


def agents_on_plane(replay: Replay) -> dict[str, Any]:
    """``fixed``: names, dollars and rewards of all agents and their hull; empty if dollars are unknown."""
    if replay.matrix.cost_usd is None:
        return {}
    return {"fixed": {"names": list(replay.matrix.agents), **fixed_agents(replay)}}
