"""Fit the noise that policies see and the inverse temperature, by a rule; the five environments are not read.

The rule (ADR 13):

1. The geometry is the shipped one, fitted to Random alone. One noise and one eta serve all seven settings.
2. Candidates are the 60 combinations of :data:`FORMS` and :data:`ETAS`.
3. The criterion is the rms of ln(regret here / regret published) of BOT-Orch over lambda = 0.5, 1, 2, 5, 13 and the
   two settings of the lambda ablation, on even seeds. Odd seeds are reported.
4. Of candidates within :data:`TIE` of the best, the one with eta nearest to the paper's 5 is taken.
5. lambda of the five environments is not fitted: it is the 13 that the paper's ablation selects.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache

import numpy as np

from bot_orch.lab.environments.stream import GivenAlignment
from bot_orch.lab.environments.synthetic.episodes import SyntheticEpisodes, episodes
from bot_orch.lab.environments.synthetic.noise import NoiseForm, with_noise
from bot_orch.lab.environments.synthetic.settings import ABLATION, COMMON, ENVIRONMENTS, SETTINGS
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.harness.tables import published
from bot_orch.lab.paper.synthetic.play import ratio, scores, utility
from bot_orch.policies.bot import algorithm_1, algorithm_2
from bot_orch.rng import derive_keys

__all__ = [
    "ETAS",
    "EVEN",
    "FORMS",
    "LATER",
    "ODD",
    "TIE",
    "NoiseReading",
    "ablation_error",
    "candidates",
    "choose",
    "five_error",
    "five_ratios",
]

ETAS = (1.0, 1.5, 2.0, 3.0, 5.0)
#: Forms of the noise with the levels tried.
FORMS: dict[NoiseForm, tuple[float, ...]] = {
    "additive": (1.0, 1.25, 1.5, 2.0, 2.5, 3.0),
    "relative": (0.3, 0.33, 0.36, 0.4, 0.45, 0.5),
}
#: Tried after the rule had been applied: sigma_i of the paper's text, constant over time.
LATER: dict[NoiseForm, tuple[float, ...]] = {"agent": (0.3, 0.33, 0.36, 0.4, 0.45, 0.5)}
TIE = 0.01
EVEN, ODD = range(0, 80, 2), range(1, 80, 2)
_LAMBDAS = (0.5, 1.0, 2.0, 5.0, 13.0)
_PRINTED_ETA = 5.0


@dataclass(frozen=True, slots=True)
class NoiseReading:
    """A reading of the noise and of the inverse temperature."""

    form: NoiseForm
    level: float
    eta: float
    _: KW_ONLY
    lambda_: float = COMMON.lambda_


def candidates(forms: dict[NoiseForm, tuple[float, ...]] | None = None) -> Iterator[NoiseReading]:
    """Every combination of form, level and eta."""
    for form, levels in (FORMS if forms is None else forms).items():
        for level in levels:
            for eta in ETAS:
                yield NoiseReading(form, level, eta)


def choose(errors: dict[NoiseReading, float]) -> NoiseReading:
    """The candidate that the rule takes.

    Examples
    --------
    >>> near, cooler, far = (NoiseReading("relative", 0.3, eta) for eta in (1.0, 3.0, 5.0))
    >>> choose({near: 0.100, cooler: 0.105, far: 0.2}).eta
    3.0
    """
    best = min(errors.values())
    tied = [candidate for candidate, error in errors.items() if error <= best + TIE]
    return min(tied, key=lambda candidate: (abs(candidate.eta - _PRINTED_ETA), errors[candidate]))


def ablation_error(candidate: NoiseReading, seeds: Sequence[int] = EVEN) -> float:
    """The criterion: rms of the log ratio of mean regrets in the lambda ablation."""
    logs = []
    for name in ABLATION:
        runs = _runs(name, tuple(seeds))
        for value in _LAMBDAS:
            paper = published("synthetic-lambda", name, "bot-orch", lambda_=value, metric="oracle_regret")
            if paper is None:
                raise LookupError(f"no regret is published for {name} at lambda {value:g}")
            logs.append(math.log(_means(candidate, runs, value)["oracle_regret"] / paper.mean))
    return _rms(logs)


def five_ratios(candidate: NoiseReading, metric: str, seeds: Sequence[int] = ODD) -> dict[str, float]:
    """BOT-Orch over Random in the five environments, Random in expectation."""
    found = {}
    for name in ENVIRONMENTS:
        runs = _runs(name, tuple(seeds))
        random = {
            "oracle_regret": utility(runs).max(axis=-1) - utility(runs).mean(axis=-1),
            "alignment_cost": runs.stream.alignment.mean(axis=-1),
        }[metric]
        found[name] = _means(candidate, runs, candidate.lambda_)[metric] / float(random.sum(axis=0).mean())
    return found


def five_error(ratios: dict[str, float], metric: str) -> float:
    """Rms of ln(ratio here / ratio published) over the five environments."""
    return _rms([math.log(value / ratio(name, metric)) for name, value in ratios.items()])


@lru_cache(maxsize=32)
def _runs(name: str, seeds: tuple[int, ...]) -> SyntheticEpisodes:
    return episodes(SETTINGS[name], seeds)


def _means(candidate: NoiseReading, runs: SyntheticEpisodes, lambda_: float) -> dict[str, float]:
    algorithm = algorithm_1 if runs.setting.iid else algorithm_2
    seen = with_noise(runs.stream.alignment, runs.drawn.noise, candidate.level, form=candidate.form)
    keys = derive_keys(["synthetic-refit", runs.setting.name], range(runs.stream.seeds))
    policy = algorithm(alpha=COMMON.alpha, eta=candidate.eta)
    trace = simulate(policy, runs.stream, keys, lambda_=lambda_, source=GivenAlignment(seen))
    return {metric: float(np.mean(values)) for metric, values in scores(runs, trace).items()}


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(sum(v * v for v in values) / len(values))
