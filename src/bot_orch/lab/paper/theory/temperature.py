"""The price of a constant temperature: BOT-Orch against UCB1 over longer and longer runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Floats
from bot_orch.lab.environments.stream import Stream
from bot_orch.lab.harness.experiment import Payload, Results, Scale, Unit
from bot_orch.lab.harness.figures import series
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.paper.theory.items import (
    Claim,
    Measurement,
    Slope,
    Steps,
    log_axes,
    loglog_slope,
    panels,
    theory_item,
    view,
)
from bot_orch.numerics.choice import UNSEEN, argmax_ties, best_of_family
from bot_orch.numerics.estimators import Estimator, Mean
from bot_orch.numerics.schedules import Constant, LogGrowth, Power
from bot_orch.policies.base import Choice, EstimatorPolicy, Policy, Situation
from bot_orch.policies.bot import Bot, algorithm_1
from bot_orch.policies.ucb1 import UCB1
from bot_orch.rng import derive_keys, generator


@dataclass(frozen=True, slots=True)
class BoltzmannGumbel(EstimatorPolicy):
    """argmax of mean_i + (scale / sqrt(n_i)) * Gumbel noise, after each agent was chosen once [1]_.

    References
    ----------
    .. [1] Cesa-Bianchi, Gentile, Lugosi, Neu. Boltzmann exploration done right. NeurIPS 2017.
    """

    scale: float = 0.5
    estimator: Estimator = field(default_factory=Mean)
    id: ClassVar[str] = "boltzmann-gumbel"

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """The probability of being the argmax, by quadrature."""
        estimate, n = self.estimator.estimate(state), self.seen(state, situation)
        fresh = n <= 0.0
        spread = self.scale / np.sqrt(np.maximum(n, 1.0))
        p = best_of_family(
            estimate - situation.penalty,
            spread,
            _gumbel_cdf,
            eligible=situation.eligible,
            reach=(3.5, 18.0),
            points=192,
        )
        bonus = np.where(fresh, UNSEEN, spread)
        allowed = fresh if situation.eligible is None else fresh & situation.eligible
        any_fresh = np.logical_or.reduce(allowed, axis=-1, keepdims=True)
        first = argmax_ties(bonus - situation.penalty, situation.eligible)
        return Choice(np.where(any_fresh, first, p), estimate, bonus)


def _gumbel_cdf(z: Floats) -> Floats:
    return np.exp(-np.exp(np.minimum(-z, 50.0)))


CHANCES = np.arange(0.3, 0.85, 0.1)
HORIZONS = (200, 2_000, 20_000)
_GRID = (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
_SEEDS_OF_SLOW = 20  # Boltzmann-Gumbel finds its probabilities by quadrature
POLICIES: dict[str, Policy] = {
    "eta = 5, moving average": algorithm_1(),
    "eta = 10, moving average": algorithm_1(eta=10.0),
    "eta = 10, mean": Bot(Constant(10.0), Mean()),
    "eta = 5 (1 + ln t), mean": Bot(LogGrowth(5.0), Mean()),
    "eta = sqrt(t) / 2, mean with a prior": Bot(Power(0.5, 0.5), Mean(prior=2.0)),
    "Boltzmann-Gumbel": BoltzmannGumbel(),
    "UCB1": UCB1(),
}

_PRINTED, _RIVAL = "eta = 5, moving average", "UCB1"


def units(scale: Scale) -> list[Unit]:
    """One unit per policy, the slowest first."""
    horizons = [h for h in _GRID if h <= (2_000 if scale.quick else 20_000)]
    names = sorted(POLICIES, key=lambda name: name != "Boltzmann-Gumbel")
    seeds = scale.n_seeds(100, 20)
    counts = {"Boltzmann-Gumbel": min(seeds, 3 if scale.quick else _SEEDS_OF_SLOW)}
    return [Unit(name, {"policy": name, "seeds": counts.get(name, seeds), "horizons": horizons}) for name in names]


def run(params: Mapping[str, Any]) -> Payload:
    """Pseudo-regret at every horizon, per seed."""
    name, seeds, horizons = params["policy"], params["seeds"], params["horizons"]
    draws = [generator("theory", "temperature", seed).random((max(horizons), CHANCES.size)) for seed in range(seeds)]
    reward = (np.stack(draws, axis=1) < CHANCES).astype(float)
    stream = Stream(reward, np.broadcast_to(0.0, reward.shape))
    agent = simulate(POLICIES[name], stream, derive_keys(["theory", "temperature", name], range(seeds))).agent
    regret = np.cumsum(CHANCES.max() - CHANCES[agent], axis=0)
    return {"horizons": horizons, "regret": [[float(v) for v in regret[h - 1]] for h in horizons]}


def claims(results: Results) -> list[Claim]:
    """Whether softmax over a moving average beats UCB1, and what corrects it."""
    ours, rival = _means(results, _PRINTED), _means(results, _RIVAL)
    horizons = [h for h in HORIZONS if h in ours] or [max(ours)]
    last = max(ours)
    ahead = {h: ours[h] < rival[h] for h in sorted({*horizons, last})}
    mended = {name: _means(results, name) for name in POLICIES if name not in (_PRINTED, _RIVAL)}
    winners = [name for name, mean in mended.items() if all(mean[h] < rival[h] for h in ahead)]
    told = ", ".join(f"{ours[h]:.0f} against {rival[h]:.0f} at {h:,}" for h in ahead)
    best = min(winners, key=lambda name: mended[name][last]) if winners else "none"
    rest = ", ".join(f"{name} {mean[last]:.0f}" for name, mean in mended.items())
    locked = "eta = 5 (1 + ln t), mean"
    spread = float(np.std(results[locked]["regret"][-1]))
    return [
        Claim(
            "a softmax over estimates beats UCB1",
            f"Regret of the constant temperature and of UCB1: {told} rounds; slope over the second half of the grid "
            f"{_late_slope(results, _PRINTED)} against {_late_slope(results, _RIVAL)}. A comparison over 200 rounds "
            f"flatters it. At {last:,} rounds: {rest}. Ahead of UCB1 at every horizon and best at the last: {best}. "
            f"Cooling too fast is no cure: {locked} spreads by {spread:.0f} over seeds, because some stay with a worse "
            "agent.",
            printed=all(ahead.values()),
            mended=bool(winners),
        )
    ]


def measures(results: Results) -> list[Measurement]:
    """Regret at the paper's horizon and a hundred times later."""
    found = []
    for name, p in results.items():
        at = dict(zip(p["horizons"], p["regret"], strict=True))
        shown = [h for h in HORIZONS if h in at] or [max(at)]
        found.append(Measurement("theory-temperature", name, {f"regret_{h}": at[h] for h in shown}))
    return found


def _means(results: Results, name: str) -> dict[int, float]:
    p = results[name]
    return {h: float(np.mean(v)) for h, v in zip(p["horizons"], p["regret"], strict=True)}


def _late_slope(results: Results, name: str) -> Slope:
    p = results[name]
    half = len(p["horizons"]) // 2
    return loglog_slope(p["horizons"][half:], p["regret"][half:])


def draw_temperature(results: Results) -> Any:
    """Regret against rounds, log-log."""
    figure, axes = panels(1, 7.0, 3.4)
    axis = axes[0]
    for index, name in enumerate(POLICIES):
        p = results[name]
        mean = np.array([np.mean(v) for v in p["regret"]])
        axis.plot(p["horizons"], mean, label=name, **series(index))
    axis.axvline(200, color="black", linestyle=":", linewidth=0.9)
    log_axes(axis)
    axis.set(xlabel="rounds (dotted: the paper's 200)", ylabel="regret")
    axis.legend()
    return figure


EXPERIMENT = theory_item(
    id="theory-temperature",
    title="The price of a constant temperature",
    about="Six agents with Bernoulli rewards of mean 0.3 to 0.8, no alignment, bandit feedback. The paper compares "
    "over 200 rounds; here the same policies go on.",
    steps=Steps(units, run, claims, measures, draw_temperature),
    tables=[view(f"Regret after {h:,} rounds", f"regret_{h}", digits=1) for h in HORIZONS],
    caption="Regret against rounds, mean over seeds. A straight line of slope one is linear regret.",
    order=48,
)
