"""``bot-orch sweep``: run a grid of your own: policies x environments x lambda x rounds."""

from __future__ import annotations

import argparse
from pathlib import Path

from bot_orch.cli._options import add_run_options, check_counts
from bot_orch.cli._terminal import ProgressBar
from bot_orch.errors import InvalidInputError, install_command

DESCRIPTION = """\
Run a grid: every policy in every environment with every lambda, over seeds. Writes DIR/tables.csv (one row per number,
as reproduce does), DIR/summary.txt and DIR/figures/sweep.png. An interrupted run resumes where it stopped, on either
engine.

FILE is YAML (or JSON). Unknown keys are errors:
  policies        a name, or name with settings, grid (a list of values per setting: every combination) and label
  environments    a name (see --list), or name with settings, rounds and label, or matrix: PATH as in the arena
  lambda          a number or several (default: 0); where it can change nothing, a policy runs once, with 0
  seeds           how many (default: 20)
  rounds          a number or several (default: the environment's own; triage has 114)
  score_lambda    lambda that net utility is computed with, for all rows alike (default: the largest of lambda)
  seeds_per_unit  seeds that one worker steps together (default: at most 500, about two million rounds)"""
EXAMPLES = """\
example of a file:
  policies:
    - thompson-beta
    - name: bot
      grid: {eta: [5, 20]}
      settings: {estimator: {id: mean, prior: 2.0}}
  environments: [triage-iid, triage-noniid]
  lambda: [0, 1, 3]
  seeds: 30

examples:
  bot-orch sweep grid.yaml --dry-run
  bot-orch sweep grid.yaml --out out/sweep
  bot-orch sweep grid.yaml --engine ray --address auto --out out/sweep"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the grid")
    parser.add_argument("--list", action="store_true", help="list policies and environments with settings, and exit")
    parser.add_argument("--dry-run", action="store_true", help="check the file, print the amount of work, and exit")
    add_run_options(parser, "out/sweep")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.lab.harness.engines import make_engine
    from bot_orch.lab.sweep.run import run_sweep
    from bot_orch.lab.sweep.spec import read_sweep

    if arguments.list:
        return _list()
    if arguments.file is None:
        raise InvalidInputError("FILE", "is missing", "pass a YAML file; see bot-orch sweep --help")
    check_counts(arguments, ("jobs",))
    sweep = read_sweep(arguments.file)
    if arguments.dry_run:
        sweep.check()
        cells = list(sweep.cells())
        units = sum(len(sweep.units(cell)) for cell in cells)
        rounds = sum(cell.place.rounds * sweep.seeds for cell in cells)
        print(f"{sweep.name}: {len(cells)} cells, {units} units, {rounds:,} rounds")  # noqa: T201
        return 0
    engine = make_engine(arguments.engine, arguments.jobs, arguments.address)
    written = run_sweep(
        sweep, arguments.out, engine, progress=ProgressBar(quiet=arguments.quiet), force=arguments.force
    )
    figure = written.figure or f"not drawn; {install_command('reproduce')}"
    print(f"{written.text}\ntables:  {written.tables}\nsummary: {written.summary}\nfigure:  {figure}")  # noqa: T201
    return 0


def _list() -> int:
    from bot_orch.lab.sweep.environments import environments
    from bot_orch.lab.sweep.spec import policy_settings
    from bot_orch.policies.registry import available_policies

    for name in available_policies():
        print(f"policy       {name:<20} {', '.join(policy_settings(name))}")  # noqa: T201
    for name, environment in environments().items():
        print(f"environment  {name:<20} {', '.join(environment.options)}")  # noqa: T201
    return 0
