"""Item 1: regret of exponential weights on R - lambda * W, of its bandit version, and of BOT-Orch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.environments.stream import Stream
from bot_orch.lab.harness.experiment import Payload, Results, Scale, Unit
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.paper.theory.assemble import Measurement
from bot_orch.lab.paper.theory.regret.cases import CASES, Case, CaseRounds
from bot_orch.numerics.choice import softmax
from bot_orch.numerics.schedules import Constant, Power
from bot_orch.policies.base import Policy
from bot_orch.policies.bot import algorithm_1
from bot_orch.policies.exponential_weights import ExponentialWeights, ImportanceWeighted
from bot_orch.rng import derive_keys

__all__ = [
    "BANDIT",
    "WEIGHTS",
    "bandit_bound",
    "bandit_regret",
    "bound",
    "curve",
    "exponential_weights",
    "full_information_regret",
    "lazy_bound",
    "measures",
    "run",
    "units",
]

#: ``constant``: eta tuned to the horizon. ``printed``: weights multiplied by exp(eta_t u_t), eta_t ~ t^-1/2.
#: ``lazy``: softmax of eta_t times the sum of past utilities, the form for which decreasing rates are safe.
WEIGHTS = ("constant", "printed", "lazy")
#: The last two follow one rate for all horizons; ``unweighted`` is the printed update with the printed rates.
BANDIT = ("importance-weighted", "unweighted-constant", "unweighted", "bot-orch")
_HORIZONS = (1_000, 3_162, 10_000, 31_623, 100_000)
_QUICK_HORIZONS = (250, 500, 1_000, 2_000)


def bound(rounds: float, agents: int, width: float) -> float:
    """(b - a) sqrt(T ln M / 2): static regret with the best constant eta."""
    return width * math.sqrt(rounds * math.log(agents) / 2.0)


def lazy_bound(rounds: int, agents: int, width: float) -> float:
    """The sum ln M / eta_T + (b - a)^2 / 8 * sum of eta_t with the ``lazy`` rates: at most (b - a) sqrt(T ln M)."""
    eta = _rates("lazy", rounds, agents, width=width)
    return float(math.log(agents) / eta[-1] + width**2 / 8.0 * eta.sum())


def bandit_bound(rounds: float, agents: int, width: float) -> float:
    """(b - a) sqrt(2 T M ln M): importance-weighted exponential weights under bandit feedback."""
    return width * math.sqrt(2.0 * rounds * agents * math.log(agents))


def exponential_weights(u: Floats, eta: Floats, *, lazy: bool) -> Floats:
    """Probabilities ``(T, M)`` of every round, in closed form: the weights are cumulative sums.

    Examples
    --------
    >>> u = np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> exponential_weights(u, np.ones(2), lazy=False).round(3)
    array([[0.5  , 0.5  ],
           [0.731, 0.269]])
    """
    gain = u if lazy else eta[:, None] * u
    before = np.cumsum(gain, axis=0) - gain
    return softmax(eta[:, None] * before if lazy else before)


def full_information_regret(case: Case, rounds: CaseRounds, weights: str) -> tuple[float, float]:
    """Regret to the best fixed agent in hindsight, and to the best agent of every round given its task."""
    u = rounds.utility(case.lambda_)
    p = exponential_weights(u, _rates(weights, len(u), case.agents, width=case.width), lazy=weights == "lazy")
    static = u.sum(axis=0).max() - (p * u).sum()
    per_round = rounds.expected.max(axis=1).sum() - (p * rounds.expected).sum()
    return float(static), float(per_round)


def bandit_regret(case_name: str, method: str, horizons: Sequence[int], *, seeds: int) -> list[list[float]]:
    """Regret to the best agent of every round, given its task, at each horizon, per seed.

    A method whose rate is tuned to the horizon takes one horizon at a time.
    """
    case, last = CASES[case_name], max(horizons)
    drawn = [case.draw(seed, last) for seed in range(seeds)]
    stream = Stream(np.stack([r.reward for r in drawn], axis=1), np.stack([r.alignment for r in drawn], axis=1))
    keys = derive_keys(["theory", "regret", case_name, method], range(seeds))
    trace = simulate(_bandit_policy(method, case, last), stream, keys, lambda_=case.lambda_)
    lost = np.empty(trace.agent.shape)
    for seed, r in enumerate(drawn):
        lost[:, seed] = (
            r.expected.max(axis=1) - np.take_along_axis(r.expected, trace.agent[:, seed, None], axis=1)[:, 0]
        )
    total = np.cumsum(lost, axis=0)
    return [[float(value) for value in total[horizon - 1]] for horizon in horizons]


def units(scale: Scale) -> list[Unit]:
    """Full information in closed form; bandits by simulation, one unit per tuned horizon."""
    horizons = list(_QUICK_HORIZONS if scale.quick else _HORIZONS)
    seeds = scale.n_seeds(20)
    base = {"horizons": horizons, "seeds": seeds}
    runs = [Unit(f"gaps/{method}", {**base, "case": "gaps", "method": method}) for method in BANDIT[2:]]
    runs += [
        Unit(f"gaps/{method}/{h}", {**base, "case": "gaps", "method": method, "horizons": [h]})
        for h in reversed(horizons)
        for method in BANDIT[:2]
        if method == "importance-weighted" or h < _HORIZONS[-1]  # the other is an aside
    ]
    runs.append(Unit("alternating/bot-orch", {**base, "case": "alternating", "method": "bot-orch"}))
    for name in CASES:
        n = 1 if name == "switch" else seeds  # nothing is random in it
        runs += [Unit(f"{name}/{w}", {**base, "case": name, "method": w, "seeds": n}) for w in WEIGHTS]
    return runs


def run(params: Mapping[str, Any]) -> Payload:
    """Regrets per horizon and seed."""
    name, method, horizons, seeds = params["case"], params["method"], params["horizons"], params["seeds"]
    if method in BANDIT:
        return {"horizons": horizons, "per_round": bandit_regret(name, method, horizons, seeds=seeds)}
    case = CASES[name]
    values = np.empty((2, len(horizons), seeds))
    for seed in range(seeds):
        whole = case.draw(seed, max(horizons))
        for at, horizon in enumerate(horizons):
            part = case.draw(seed, horizon) if name == "switch" else _first(whole, horizon)
            values[:, at, seed] = full_information_regret(case, part, method)
    return {"horizons": horizons, "static": values[0].tolist(), "per_round": values[1].tolist()}


def curve(
    results: Results, case: str, method: str, *, metric: str = "per_round"
) -> tuple[list[int], list[list[float]]]:
    """Horizons and values per seed, tuned horizons put together."""
    parts = [p for key, p in results.items() if key == f"{case}/{method}" or key.startswith(f"{case}/{method}/")]
    pairs = sorted((h, v) for p in parts for h, v in zip(p["horizons"], p[metric], strict=True))
    return [h for h, _ in pairs], [v for _, v in pairs]


def measures(results: Results) -> list[Measurement]:
    """Regret at the longest horizon, and over the bound where there is one."""
    found = []
    for name, case in CASES.items():
        for method in (*WEIGHTS, *BANDIT):
            horizons, values = curve(results, name, method)
            if not horizons:
                continue
            last = max(horizons)
            metrics = {"per_round_regret_per_round": [v / last for v in values[-1]]}
            if method in WEIGHTS:
                static = curve(results, name, method, metric="static")[1][-1]
                metrics["static_regret"] = static
                metrics["static_regret_over_bound"] = [v / bound(last, case.agents, case.width) for v in static]
            found.append(Measurement(f"theory-{name}", method, metrics, lambda_=case.lambda_))
    return found


def _rates(weights: str, rounds: int, agents: int, *, width: float) -> Floats:
    if weights == "constant":
        return np.full(rounds, math.sqrt(8.0 * math.log(agents) / rounds) / width)
    rates: Floats = 2.0 * np.sqrt(math.log(agents) / np.arange(1, rounds + 1)) / width
    return rates


def _bandit_policy(method: str, case: Case, rounds: int) -> Policy:
    m = case.agents
    if method == "importance-weighted":
        eta = math.sqrt(2.0 * math.log(m) / (rounds * m)) / case.width
        return ImportanceWeighted(Constant(eta), ceiling=case.high, floor=0.0)
    if method == "unweighted-constant":
        return ExponentialWeights(Constant(float(_rates("constant", rounds, m, width=case.width)[0])))
    if method == "unweighted":
        return ExponentialWeights(Power(float(_rates("printed", 1, m, width=case.width)[0]), -0.5))
    return algorithm_1()


def _first(rounds: CaseRounds, n: int) -> CaseRounds:
    return CaseRounds(rounds.reward[:n], rounds.alignment[:n], rounds.expected[:n])
