"""Fit the free parameters of the synthetic environments to the Random column and the oracle level, to nothing else.

Random chooses evenly whatever happens, so its column is a property of the environment alone; and net utility plus
regret is the oracle's net utility, the same in every column. Both can be matched without running any policy. The
columns of BOT-Orch, No-OT and UCB1 are never read here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares, minimize_scalar

from bot_orch.arrays import Floats
from bot_orch.lab.environments.synthetic.episodes import Draws, draws, episodes, observed_alignment, realise
from bot_orch.lab.environments.synthetic.settings import ENVIRONMENTS, Bridge, Setting, calibrated
from bot_orch.lab.harness.tables import Published, published
from bot_orch.lab.paper.synthetic.play import entrant, play, scores
from bot_orch.rng import derive_keys

__all__ = [
    "CALIBRATION_SEEDS",
    "Calibration",
    "CalibrationTarget",
    "calibrate",
    "calibrate_all",
    "measure",
    "predicted_ratio",
    "targets",
]

#: Other seeds than those of the tables.
CALIBRATION_SEEDS = range(1000, 1064)
_METRICS = ("alignment_cost", "net_utility", "oracle_regret", "event_rate", "mean_observed_time")
_PATHS = 4
_CHI = 0.35  # relative standard error of a standard deviation over five seeds


@dataclass(frozen=True, slots=True)
class CalibrationTarget:
    """A published number as the fit sees it: cumulative over the horizon, with its standard error."""

    value: float
    error: float
    logarithmic: bool = False

    def residual(self, found: float) -> float:
        """How many standard errors away."""
        gap = math.log(found / self.value) if self.logarithmic else found - self.value
        return gap / self.error


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted setting, what it was fitted to, and what it gives."""

    setting: Setting
    targets: Mapping[str, CalibrationTarget]
    found: Mapping[str, float]

    @property
    def misfit(self) -> float:
        """Sum of squared residuals in standard errors."""
        return sum(target.residual(self.found[name]) ** 2 for name, target in self.targets.items())


def targets(setting: Setting) -> dict[str, CalibrationTarget]:
    """What the paper prints of Random in this environment, and of the oracle."""
    return _main_targets(setting.name) if setting.name in ENVIRONMENTS else _ablation_targets(setting)


def measure(setting: Setting, drawn: Draws) -> dict[str, float]:
    """The same numbers in expectation over Random's choices; cumulative over the horizon."""
    runs = realise(setting, drawn)
    w, r = runs.stream.alignment, runs.stream.reward
    best = (r - w).max(axis=-1)
    return {
        "alignment_cost": float(w.mean(axis=-1).sum(axis=0).mean()),
        "net_utility": float((r - w).mean(axis=-1).sum(axis=0).mean()),
        "oracle_net": float(best.sum(axis=0).mean()),
        "oracle_regret": float((best - (r - w).mean(axis=-1)).sum(axis=0).mean()),
        "alignment_cost_sd": _sd_over_seeds(w),
        "net_utility_sd": _sd_over_seeds(r - w),
        "event_rate": float(runs.event.mean()),
        "mean_observed_time": float(runs.time_s.mean()),
    }


def calibrate(setting: Setting, seeds: Sequence[int] = CALIBRATION_SEEDS) -> Calibration:
    """Weighted least squares in the logarithms of the calibrated parameters, from their declared values."""
    if isinstance(setting, Bridge):  # a seed is one path, and paths differ far more than rounds do
        seeds = range(min(seeds), min(seeds) + _PATHS * len(seeds))
    names, goal, drawn = calibrated(setting), targets(setting), draws(setting, seeds)

    def at(logs: Floats) -> Setting:
        values = dict(zip(names, np.exp(logs).tolist(), strict=True))
        return replace(setting, **values)

    def residuals(logs: Floats) -> list[float]:
        found = measure(at(logs), drawn)
        return [target.residual(found[name]) for name, target in goal.items()]

    start = np.log([getattr(setting, name) for name in names])
    low, high = np.log(0.05), np.log(40.0)
    solution = least_squares(residuals, np.clip(start, low, high), bounds=(low, high), diff_step=1e-3, x_scale=0.3)
    fitted = at(solution.x)
    return Calibration(fitted, goal, measure(fitted, drawn))


def calibrate_all(
    settings: Sequence[Setting], seeds: Sequence[int] = CALIBRATION_SEEDS, progress: Callable[[str], object] = len
) -> list[Calibration]:
    """All settings, with the one output spread that fits the five environments best together."""
    five = [setting for setting in settings if setting.name in ENVIRONMENTS]
    others = [setting for setting in settings if setting.name not in ENVIRONMENTS]

    def together(output_spread: float) -> list[Calibration]:
        return [calibrate(replace(setting, output_spread=output_spread), seeds) for setting in five]

    def misfit(output_spread: float) -> float:
        total = sum(fit.misfit for fit in together(output_spread))
        progress(f"output_spread {output_spread:.2f}: misfit {total:.2f}")
        return total

    best = round(float(minimize_scalar(misfit, bounds=(5.0, 13.0), method="bounded", options={"xatol": 0.1}).x), 1)
    return together(best) + [calibrate(replace(setting, output_spread=best), seeds) for setting in others]


def predicted_ratio(setting: Setting, seeds: Sequence[int] = range(40)) -> float:
    """BOT-Orch's regret over Random's in a setting: what the calibration does not look at."""
    runs = episodes(setting, seeds)
    seen, keys = observed_alignment(runs), derive_keys(["calibrate", setting.name], seeds)
    regret = [
        float(np.mean(scores(runs, play(entrant(name, setting), runs, seen, keys=keys))["oracle_regret"]))
        for name in ("bot-orch", "random")
    ]
    return regret[0] / regret[1]


def _sd_over_seeds(values: Floats) -> float:
    """Sd over seeds of the sum over rounds of a value picked evenly among agents."""
    between = values.mean(axis=-1).sum(axis=0).var(ddof=1)
    within = values.var(axis=-1).sum(axis=0).mean()
    return float(np.sqrt(between + within))


def _main_targets(name: str) -> dict[str, CalibrationTarget]:
    random = {metric: _random("synthetic", name, metric) for metric in _METRICS}
    cost, regret = random["alignment_cost"], random["oracle_regret"]
    root = math.sqrt(5.0)
    return {
        "alignment_cost": CalibrationTarget(cost.mean, cost.spread / root),
        "oracle_regret": CalibrationTarget(regret.mean, regret.spread / root),
        "alignment_cost_sd": CalibrationTarget(cost.spread, _CHI, logarithmic=True),
        **{metric: CalibrationTarget(random[metric].mean, random[metric].spread / root) for metric in _METRICS[3:]},
    }


def _ablation_targets(setting: Setting) -> dict[str, CalibrationTarget]:
    """Here the paper's plus-minus is a confidence interval of the mean over 30 seeds, not a standard deviation."""
    net, regret = (_random("synthetic-lambda", setting.name, metric) for metric in ("net_utility", "oracle_regret"))
    five = {m: [_random("synthetic", name, m).mean for name in ENVIRONMENTS] for m in _METRICS[3:]}
    return {
        "net_utility": CalibrationTarget(net.mean, net.spread / 1.96),
        "oracle_regret": CalibrationTarget(regret.mean, regret.spread / 1.96),
        "net_utility_sd": CalibrationTarget(net.spread / 1.96 * math.sqrt(30.0), _CHI / 2.5, logarithmic=True),
        **{metric: CalibrationTarget(float(np.mean(values)), 0.01) for metric, values in five.items()},
    }


def _random(experiment: str, environment: str, metric: str) -> Published:
    found = published(experiment, environment, "random", lambda_=0.0, metric=metric)
    if found is None:
        raise LookupError(f"no published {metric} of random in {environment}")
    return found
