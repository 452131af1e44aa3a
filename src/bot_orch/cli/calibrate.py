"""``bot-orch calibrate``: refit the synthetic environments and compare with the declared parameters."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bot_orch.errors import InvalidInputError

if TYPE_CHECKING:
    from bot_orch.lab.paper.synthetic.calibration import Calibration

_DESCRIPTION = """\
Fit the free parameters of the synthetic environments to the paper's Random column and oracle level, and to nothing
else: the columns of BOT-Orch, No-OT and UCB1 are never read. Prints the targets, the fitted values, and the
fitted and declared parameters. Writes no file."""
_EXAMPLE = """\
examples:
  bot-orch calibrate
  bot-orch calibrate --seeds 24
  bot-orch calibrate --table
  bot-orch calibrate --sensitivity
  bot-orch calibrate --refit"""


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "calibrate",
        help="fit the synthetic environments to the paper's Random column",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=64, metavar="N", help="simulated runs per fit (default: 64)")
    parser.add_argument("--table", action="store_true", help="print the declared parameters with reasons, and exit")
    parser.add_argument(
        "--sensitivity",
        action="store_true",
        help="fit with several output spreads instead; print misfits and predicted regret ratios",
    )
    parser.add_argument(
        "--refit",
        action="store_true",
        help="fit noise and eta to the lambda ablation by the rule of ADR 13 instead; print every candidate",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.lab.environments.synthetic.settings import SETTINGS
    from bot_orch.lab.paper.synthetic.calibration import CALIBRATION_SEEDS, calibrate_all

    if arguments.table:
        _print_table()
        return 0
    if arguments.refit:
        _print_refit()
        return 0
    if arguments.seeds < 2:
        raise InvalidInputError("--seeds", f"is {arguments.seeds}", "pass a whole number, 2 or more")
    seeds = range(CALIBRATION_SEEDS.start, CALIBRATION_SEEDS.start + arguments.seeds)
    if arguments.sensitivity:
        _print_sensitivity(seeds)
        return 0
    for fit in calibrate_all(list(SETTINGS.values()), seeds, lambda text: print(text, file=sys.stderr)):  # noqa: T201
        _print_fit(fit)
    return 0


def _print_fit(fit: Calibration) -> None:
    from bot_orch.lab.environments.synthetic.settings import SETTINGS, calibrated

    setting = fit.setting
    lines = [f"\n{setting.name}  (misfit {fit.misfit:.2f})", f"  {'fitted to':<20}{'paper':>10}{'+-':>9}{'fit':>10}"]
    for name, target in fit.targets.items():
        error = target.error * target.value if target.logarithmic else target.error
        lines.append(f"  {name:<20}{target.value:>10.2f}{error:>9.2f}{fit.found[name]:>10.2f}")
    lines.append(f"  {'parameter':<20}{'declared':>10}{'':>9}{'fit':>10}")
    for name in (*calibrated(setting), "output_spread"):
        declared, found = getattr(SETTINGS[setting.name], name), getattr(setting, name)
        lines.append(f"  {name:<20}{declared:>10.3f}{'':>9}{found:>10.3f}")
    print("\n".join(lines))  # noqa: T201


def _print_sensitivity(seeds: range) -> None:
    from bot_orch.lab.environments.synthetic.settings import ENVIRONMENTS
    from bot_orch.lab.paper.synthetic.calibration import calibrate, predicted_ratio
    from bot_orch.lab.paper.synthetic.play import ratio

    print("output_spread" + "".join(f"{name:>22}" for name in ENVIRONMENTS))  # noqa: T201
    for spread in (1.0, 6.0, 8.0, 10.0, 12.0):
        fits = [calibrate(replace(setting, output_spread=spread), seeds) for setting in ENVIRONMENTS.values()]
        cells = [f"{f'{fit.misfit:.1f} -> {predicted_ratio(fit.setting):.3f}':>22}" for fit in fits]
        print(f"{spread:>13.1f}" + "".join(cells), flush=True)  # noqa: T201
    print(f"{'paper':>13}" + "".join(f"{ratio(name, 'oracle_regret'):>22.3f}" for name in ENVIRONMENTS))  # noqa: T201


def _print_refit() -> None:
    from bot_orch.lab.paper.synthetic import refit

    found: dict[str, dict[refit.NoiseReading, float]] = {}
    for title, forms in (("the rule's candidates", refit.FORMS), ("tried afterwards", refit.LATER)):
        print(f"{title}: rms of ln(regret here / paper) in the lambda ablation, even seeds")  # noqa: T201
        found[title] = {candidate: refit.ablation_error(candidate) for candidate in refit.candidates(forms)}
        for candidate, error in found[title].items():
            print(f"  {candidate.form:<9} {candidate.level:<5g} eta {candidate.eta:<4g} {error:.3f}")  # noqa: T201
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
        print(f"{name:<16} {reading}, odd seeds: ablation {errors[0]:.3f}, five {errors[1]:.3f}, cost {errors[2]:.3f}")  # noqa: T201
        print(17 * " " + "regret ratios " + " ".join(f"{where} {value:.3f}" for where, value in regret.items()))  # noqa: T201


def _print_table() -> None:
    from bot_orch.lab.environments.synthetic.settings import declared

    for line in declared():
        print(f"{line.environment:<17} {line.name:<17} {line.value!s:<12} {line.source:<19} {line.why}")  # noqa: T201
