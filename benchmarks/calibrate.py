"""Fit the synthetic environments to the paper's Random column and oracle level, and to nothing else.

    python benchmarks/calibrate.py [--seeds 64 | --table | --sensitivity | --refit]

The columns of BOT-Orch, No-OT and UCB1 are never read. Printed are the targets, the fitted values, and the fitted and
declared parameters. With `--table`, only the declared parameters with their reasons; with `--sensitivity`, misfits and
predicted regret ratios for several output spreads; with `--refit`, noise and eta fitted to the lambda ablation by the
rule of ADR 13, every candidate.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from bot_orch.lab.environments.synthetic.settings import ENVIRONMENTS, SETTINGS, calibrated, declared
from bot_orch.lab.paper.synthetic import refit
from bot_orch.lab.paper.synthetic.calibration import (
    CALIBRATION_SEEDS,
    Calibration,
    calibrate,
    calibrate_all,
    predicted_ratio,
)
from bot_orch.lab.paper.synthetic.play import ratio


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=64, metavar="N", help="simulated runs per fit (default: 64)")
    what = parser.add_mutually_exclusive_group()
    for option in ("--table", "--sensitivity", "--refit"):
        what.add_argument(option, action="store_true")
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error("--seeds: pass a whole number, 2 or more")
    seeds = range(CALIBRATION_SEEDS.start, CALIBRATION_SEEDS.start + arguments.seeds)
    if arguments.table:
        _print_table()
    elif arguments.refit:
        _print_refit()
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
    for spread in (1.0, 6.0, 8.0, 10.0, 12.0):
        fits = [calibrate(replace(setting, output_spread=spread), seeds) for setting in ENVIRONMENTS.values()]
        cells = [f"{f'{fit.misfit:.1f} -> {predicted_ratio(fit.setting):.3f}':>22}" for fit in fits]
        print(f"{spread:>13.1f}" + "".join(cells), flush=True)
    print(f"{'paper':>13}" + "".join(f"{ratio(name, 'oracle_regret'):>22.3f}" for name in ENVIRONMENTS))


def _print_refit() -> None:
    found: dict[str, dict[refit.NoiseReading, float]] = {}
    for title, forms in (("the rule's candidates", refit.FORMS), ("tried afterwards", refit.LATER)):
        print(f"{title}: rms of ln(regret here / paper) in the lambda ablation, even seeds")
        found[title] = {candidate: refit.ablation_error(candidate) for candidate in refit.candidates(forms)}
        for candidate, error in found[title].items():
            print(f"  {candidate.form:<9} {candidate.level:<5g} eta {candidate.eta:<4g} {error:.3f}")
    taken, later = (refit.choose(errors) for errors in found.values())
    additive = {c: e for c, e in found["the rule's candidates"].items() if c.form == "additive"}
    printed = replace(taken, eta=5.0, lambda_=1.0)
    for name, candidate in (
        ("taken", taken),
        ("best additive", refit.choose(additive)),
        ("per agent", later),
        ("taken, lambda 3", replace(taken, lambda_=3.0)),
        ("taken, lambda 1", replace(taken, lambda_=1.0)),
        ("eta 5, lambda 1", printed),
        ("release 0.1", refit.NoiseReading("additive", 1.25, 1.5, lambda_=1.0)),
    ):
        regret, cost = (refit.five_ratios(candidate, metric) for metric in ("oracle_regret", "alignment_cost"))
        errors = (
            refit.ablation_error(candidate, refit.ODD),
            refit.five_error(regret, "oracle_regret"),
            refit.five_error(cost, "alignment_cost"),
        )
        reading = f"{candidate.form} {candidate.level:g} eta {candidate.eta:g} lambda {candidate.lambda_:g}"
        print(f"{name:<16} {reading}, odd seeds: ablation {errors[0]:.3f}, five {errors[1]:.3f}, cost {errors[2]:.3f}")
        print(17 * " " + "regret ratios " + " ".join(f"{where} {value:.3f}" for where, value in regret.items()))


def _print_table() -> None:
    for line in declared():
        print(f"{line.environment:<17} {line.name:<17} {line.value!s:<12} {line.source:<19} {line.why}")


if __name__ == "__main__":
    main()
