"""Item 5: which estimates of the rewards converge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.environments.stream import Stream
from bot_orch.lab.harness.experiment import Payload, Results, Scale, Unit
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.paper.theory.assemble import Measurement
from bot_orch.policies.ucb1 import UCB1
from bot_orch.rng import derive_keys, generator

__all__ = [
    "ALPHA",
    "BETA",
    "MEANS",
    "bandit_means",
    "ema_paths",
    "ema_spread",
    "history_factor",
    "measures",
    "run",
    "units",
]

MEANS = np.array([0.3, 0.45, 0.6])
ALPHA, BETA = 0.9, 0.05
_HORIZONS = (100, 316, 1_000, 3_162, 10_000, 31_623)
_BANDIT_HORIZONS = (30, 100, 300, 1_000, 3_000)


def ema_spread(p: float, alpha: float = ALPHA) -> float:
    """The standard deviation a moving average of Bernoulli(p) rewards keeps for ever.

    Examples
    --------
    >>> round(ema_spread(0.6), 4)
    0.1124
    """
    return math.sqrt(p * (1.0 - p) * (1.0 - alpha) / (1.0 + alpha))


def history_factor(alpha: float = ALPHA, beta: float = BETA) -> float:
    """What Algorithm 2 multiplies a mean by when f = beta * mean of past rewards: 1 + beta / (1 - alpha)."""
    return 1.0 + beta / (1.0 - alpha)


def ema_paths(reward: Floats, *, beta: float = 0.0, alpha: float = ALPHA) -> Floats:
    """rhat_t of Algorithm 1 (beta = 0) or 2 after every round, ``(T, ..., M)``, with every reward observed."""
    before = np.arange(len(reward)).reshape(-1, *[1] * (reward.ndim - 1))
    path: Floats = (1.0 - alpha) * reward
    if beta:
        path += beta * (np.cumsum(reward, axis=0) - reward) / np.maximum(before, 1)
    for t in range(1, len(path)):
        path[t] += alpha * path[t - 1]
    return path


def units(scale: Scale) -> list[Unit]:
    """Full information i.i.d. and history-dependent; bandit feedback under two policies."""
    last = 3_162 if scale.quick else _HORIZONS[-1]
    seeds = scale.n_seeds(50, 30)
    base = {"horizons": [h for h in _HORIZONS if h <= last], "seeds": seeds}
    rounds = 1_000 if scale.quick else 3_000
    many = {"seeds": (20 if scale.quick else 40) * seeds, "horizons": [h for h in _BANDIT_HORIZONS if h <= rounds]}
    kinds = [Unit(kind, {**base, "kind": kind}) for kind in ("iid", "history")]
    return kinds + [Unit(f"bandit/{kind}", {**many, "kind": kind}) for kind in ("ucb1", "greedy")]


def run(params: Mapping[str, Any]) -> Payload:
    """Errors per horizon and seed."""
    kind, horizons, seeds = params["kind"], params["horizons"], params["seeds"]
    if kind == "iid":
        return {"horizons": horizons, **_iid(np.array(horizons), seeds)}
    if kind == "history":
        return {"horizons": horizons, **_history(np.array(horizons), seeds)}
    return {"horizons": horizons, **bandit_means(kind, horizons, seeds)}


def bandit_means(kind: str, horizons: list[int], seeds: int) -> dict[str, Any]:
    """Empirical means of the rewards of chosen agents: bias and largest error, per horizon.

    ``greedy`` tries every agent once and then follows the larger mean; ``ucb1`` keeps choosing every agent.
    """
    policy = UCB1(scale=1.0 if kind == "ucb1" else 0.0)
    last, m = max(horizons), MEANS.size
    reward = (generator("theory", "bandit-means", kind).random((last, seeds, m)) < MEANS).astype(float)
    stream = Stream(reward, np.broadcast_to(0.0, reward.shape))
    agent = simulate(policy, stream, derive_keys(["theory", "bandit-means", kind], range(seeds))).agent
    chosen = agent[..., None] == np.arange(m)
    bias, error = [], []
    for horizon in horizons:
        n = chosen[:horizon].sum(axis=0)
        mean = np.where(chosen[:horizon], reward[:horizon], 0.0).sum(axis=0) / np.maximum(n, 1)
        off = np.where(n > 0, mean - MEANS, np.nan)
        bias.append([[float(np.nanmean(column)), float(np.nanstd(column))] for column in off.T])
        error.append(np.nanmax(np.abs(off), axis=1).tolist())
    return {"bias": bias, "error": error, "seeds": seeds}


def measures(results: Results) -> list[Measurement]:
    """Largest error over agents at the last horizon; spread and level of the moving averages."""
    iid, history = results["iid"], results["history"]
    found = [
        Measurement("theory-iid", "empirical mean", {"error": iid["mean_error"][-1]}),
        Measurement("theory-iid", "ema (Algorithm 1)", {"error": iid["ema_error"][-1], "level": iid["ema_level"]}),
        Measurement(
            "theory-iid", "ema + history (Algorithm 2)", {"error": iid["alg2_error"][-1], "level": iid["alg2_level"]}
        ),
        Measurement("theory-history", "empirical mean", {"error": history["tracking_error"][-1]}),
    ]
    return found + [
        Measurement("theory-bandit", f"mean of the chosen, {kind}", {"error": results[f"bandit/{kind}"]["error"][-1]})
        for kind in ("ucb1", "greedy")
    ]


def _iid(horizons: Any, seeds: int) -> dict[str, Any]:
    rounds = int(horizons[-1])
    draws = [generator("theory", "consistency", seed).random((rounds, MEANS.size)) for seed in range(seeds)]
    reward = (np.stack(draws, axis=1) < MEANS).astype(float)
    paths = {
        "mean": np.cumsum(reward, axis=0) / np.arange(1, rounds + 1)[:, None, None],
        "ema": ema_paths(reward),
        "alg2": ema_paths(reward, beta=BETA),
    }
    found: dict[str, Any] = {"example": [path[:1_000:5, 0, -1].tolist() for path in paths.values()]}
    for name, path in paths.items():
        found[f"{name}_error"] = np.abs(path[horizons - 1] - MEANS).max(axis=-1).tolist()
        late = path[rounds // 2 :, :, -1]
        found[f"{name}_level"], found[f"{name}_spread"] = late.mean(axis=0).tolist(), late.std(axis=0).tolist()
    return found


def _history(horizons: Any, seeds: int) -> dict[str, Any]:
    """Rewards whose chance depends on the last reward and on a mean that swings ever more slowly."""
    last, m = int(horizons[-1]), MEANS.size
    u = generator("theory", "history").random((last, seeds, m))
    swing = 0.5 + 0.3 * np.sin(2.0 * np.log(np.arange(1, last + 1)))
    phase = np.array([1.0, -1.0, 0.5])
    before, total, predicted = np.full((seeds, m), 0.5), np.zeros((seeds, m)), np.zeros((seeds, m))
    error, mean = [], []
    marks = {int(h) for h in horizons}
    for t in range(last):
        p = 0.5 + phase * (swing[t] - 0.5) + 0.15 * (before - 0.5)
        before = (u[t] < p).astype(float)
        total += before
        predicted += p
        if t + 1 in marks:
            error.append(np.abs((total - predicted) / (t + 1)).max(axis=1).tolist())
            mean.append(float(total[:, 0].mean() / (t + 1)))
    return {"tracking_error": error, "mean": mean}
