"""Fit the synthetic environments to the paper's Random column and oracle level, and to nothing else.

    python benchmarks/calibrate.py [--seeds 64 | --table | --sensitivity | --noise]

The columns of BOT-Orch, No-OT and UCB1 are never read. Printed are the targets, the fitted values, and the fitted and
declared parameters. With `--table`, only the declared parameters with their reasons; with `--sensitivity`, misfits and
predicted regret ratios for several output spreads; with `--noise`, noise and eta fitted to the i.i.d. panel of the
lambda ablation by the rule of ADR 22, every candidate, and the ratios that follow.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.optimize import least_squares, minimize_scalar

from bot_orch.arrays import Floats
from bot_orch.lab.environments.stream import GivenAlignment
from bot_orch.lab.environments.synthetic.episodes import (
    Draws,
    SyntheticEpisodes,
    draws,
    episodes,
    observed_alignment,
    realise,
    with_noise,
)
from bot_orch.lab.environments.synthetic.settings import (
    COMMON,
    ENVIRONMENTS,
    SETTINGS,
    Bridge,
    Setting,
    calibrated,
    declared,
)
from bot_orch.lab.harness.simulate import scores, simulate, utility
from bot_orch.lab.harness.tables import Published, published
from bot_orch.lab.paper.synthetic.play import entrant, play, ratio
from bot_orch.policies.bot import algorithm_1, algorithm_2
from bot_orch.rng import derive_keys

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


#: The rule of ADR 22: candidates for the noise and the inverse temperature, and what they are compared with.
SIGMAS = tuple(round(1.0 + 0.05 * k, 2) for k in range(31))
ETAS = (1.0, 1.5, 2.0, 3.0, 5.0)
TIE = 0.01
EVEN, ODD = range(0, 600, 2), range(1, 600, 2)
PANEL = "synthetic-iid"
_LAMBDAS = (0.5, 1.0, 2.0, 5.0, 13.0)
_TRIAGE_ETA = 5.0
Noise = tuple[float, float]  # sigma, eta


def choose(errors: Mapping[Noise, float]) -> Noise:
    """The candidate that the rule takes.

    Examples
    --------
    >>> choose({(1.0, 1.0): 0.100, (1.5, 3.0): 0.105, (2.0, 5.0): 0.2})
    (1.5, 3.0)
    """
    best = min(errors.values())
    tied = [noise for noise, error in errors.items() if error <= best + TIE]
    return min(tied, key=lambda noise: (abs(noise[1] - _TRIAGE_ETA), errors[noise]))


def panel_error(noise: Noise, seeds: Sequence[int] = EVEN, panel: str = PANEL) -> float:
    """The criterion: rms of ln(regret here / published) over lambda in a panel of the ablation."""
    logs = []
    for value in _LAMBDAS:
        paper = published("synthetic-lambda", panel, "bot-orch", lambda_=value, metric="oracle_regret")
        if paper is None:
            raise LookupError(f"no regret is published for {panel} at lambda {value:g}")
        logs.append(math.log(_means(noise, panel, tuple(seeds), lambda_=value)["oracle_regret"] / paper.mean))
    return math.sqrt(sum(v * v for v in logs) / len(logs))


def ratios(noise: Noise, name: str, seeds: Sequence[int] = ODD) -> tuple[float, float]:
    """Regret and alignment cost of BOT-Orch over Random's, Random in expectation."""
    runs, bot = _runs(name, tuple(seeds)), _means(noise, name, tuple(seeds))
    random = {
        "oracle_regret": utility(runs).max(axis=-1) - utility(runs).mean(axis=-1),
        "alignment_cost": runs.stream.alignment.mean(axis=-1),
    }
    regret, cost = (bot[metric] / float(values.sum(axis=0).mean()) for metric, values in random.items())
    return regret, cost


def sigma_of(name: str, eta: float = COMMON.eta, seeds: Sequence[int] = ODD) -> float:
    """The sigma that gives the published ratio of regrets in a setting, by bisection."""
    low, high = 0.05, 8.0
    for _ in range(12):
        middle = math.sqrt(low * high)
        below = ratios((middle, eta), name, seeds)[0] < published_ratio(name)
        low, high = (middle, high) if below else (low, middle)
    return math.sqrt(low * high)


def published_ratio(name: str) -> float:
    """The paper's regret of BOT-Orch over Random's."""
    if name in ENVIRONMENTS:
        return ratio(name, "oracle_regret")
    ours = published("synthetic-lambda", name, "bot-orch", lambda_=COMMON.lambda_, metric="oracle_regret")
    if ours is None:
        raise LookupError(f"no regret is published for {name}")
    return ours.mean / _random("synthetic-lambda", name, "oracle_regret").mean


@lru_cache(maxsize=32)
def _runs(name: str, seeds: tuple[int, ...]) -> SyntheticEpisodes:
    return episodes(SETTINGS[name], seeds)


def _means(noise: Noise, name: str, seeds: tuple[int, ...], *, lambda_: float = COMMON.lambda_) -> dict[str, float]:
    runs, (sigma, eta) = _runs(name, seeds), noise
    seen = with_noise(runs.stream.alignment, runs.drawn.noise, sigma)
    keys = derive_keys(["synthetic-refit", name], range(runs.stream.seeds))
    policy = (algorithm_1 if runs.setting.iid else algorithm_2)(alpha=COMMON.alpha, eta=eta)
    trace = simulate(policy, runs.stream, keys, lambda_=lambda_, source=GivenAlignment(seen))
    return {metric: float(np.mean(values)) for metric, values in scores(runs, trace).items()}


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=64, metavar="N", help="simulated runs per fit (default: 64)")
    what = parser.add_mutually_exclusive_group()
    for option in ("--table", "--sensitivity", "--noise"):
        what.add_argument(option, action="store_true")
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error("--seeds: pass a whole number, 2 or more")
    seeds = range(CALIBRATION_SEEDS.start, CALIBRATION_SEEDS.start + arguments.seeds)
    if arguments.table:
        _print_table()
    elif arguments.noise:
        _print_noise()
    elif arguments.sensitivity:
        _print_sensitivity(seeds)
    else:
        for fit in calibrate_all(list(SETTINGS.values()), seeds, lambda text: print(text, file=sys.stderr)):
            _print_fit(fit)


def _print_fit(fit: Calibration) -> None:
    setting = fit.setting
    lines = [f"\n{setting.name}  (misfit {fit.misfit:.2f})", f"  {'fitted to':<20}{'paper':>10}{'+-':>9}{'fit':>10}"]
    for name, target in fit.targets.items():
        error = target.error * target.value if target.logarithmic else target.error
        lines.append(f"  {name:<20}{target.value:>10.2f}{error:>9.2f}{fit.found[name]:>10.2f}")
    lines.append(f"  {'parameter':<20}{'declared':>10}{'':>9}{'fit':>10}")
    for name in (*calibrated(setting), "output_spread"):
        declared, found = getattr(SETTINGS[setting.name], name), getattr(setting, name)
        lines.append(f"  {name:<20}{declared:>10.3f}{'':>9}{found:>10.3f}")
    print("\n".join(lines))


def _print_sensitivity(seeds: range) -> None:
    print("output_spread" + "".join(f"{name:>22}" for name in ENVIRONMENTS))
    for spread in (2.0, 4.0, 6.0, 8.0, 10.0, 12.0):
        fits = [calibrate(replace(setting, output_spread=spread), seeds) for setting in ENVIRONMENTS.values()]
        cells = [f"{f'{fit.misfit:.1f} -> {predicted_ratio(fit.setting):.3f}':>22}" for fit in fits]
        print(f"{spread:>13.1f}" + "".join(cells), flush=True)
    print(f"{'paper':>13}" + "".join(f"{ratio(name, 'oracle_regret'):>22.3f}" for name in ENVIRONMENTS))


def _print_noise() -> None:
    print("rms of ln(regret here / paper) in the i.i.d. panel of the lambda ablation, even seeds")
    errors = {(sigma, eta): panel_error((sigma, eta)) for sigma in SIGMAS for eta in ETAS}
    print(f"{'sigma':>6}" + "".join(f"{f'eta {eta:g}':>9}" for eta in ETAS))
    for sigma in SIGMAS:
        print(f"{sigma:>6.2f}" + "".join(f"{errors[sigma, eta]:>9.3f}" for eta in ETAS))
    taken = choose(errors)
    print(f"taken: sigma {taken[0]:g}, eta {taken[1]:g}; {panel_error(taken, ODD):.3f} on odd seeds\n")
    print(f"{'':<17}{'regret':>8}{'paper':>8}{'cost':>8}{'paper':>8}{'sigma that gives the regret':>30}")
    for name in SETTINGS:
        regret, cost = ratios(taken, name)
        other = f"{ratio(name, 'alignment_cost'):>8.3f}" if name in ENVIRONMENTS else f"{'':>8}"
        solved = sigma_of(name, taken[1])
        print(f"{name:<17}{regret:>8.3f}{published_ratio(name):>8.3f}{cost:>8.3f}{other}{solved:>30.2f}", flush=True)


def _print_table() -> None:
    for line in declared():
        print(f"{line.environment:<17} {line.name:<17} {line.value!s:<12} {line.source:<19} {line.why}")


if __name__ == "__main__":
    main()
