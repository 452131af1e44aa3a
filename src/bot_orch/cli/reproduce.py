"""``bot-orch reproduce``: reproduce the paper into an HTML report."""

from __future__ import annotations

import argparse

from bot_orch.cli._options import add_run_options, check_counts
from bot_orch.cli._terminal import ProgressBar

DESCRIPTION = """\
Reproduce the paper: run its experiments, write DIR/tables.csv, DIR/figures and DIR/index.html, a self-contained page
with every figure and every table next to the published one; figures come first, and what the paper does not have is
folded. It reads on a phone and prints, folds open. An interrupted run resumes where it stopped."""
EXAMPLES = """\
examples:
  bot-orch reproduce --list
  bot-orch reproduce --out out/paper               # then open out/paper/index.html in a browser
  bot-orch reproduce --only triage --quick --out out/quick
  bot-orch reproduce --engine ray --address auto --out out/paper"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--list", action="store_true", help="list the experiments and exit")
    parser.add_argument("--only", nargs="+", metavar="ID", help="run only these (a prefix names a group)")
    parser.add_argument("--quick", action="store_true", help="use few seeds, for a preview")
    parser.add_argument("--seeds", type=int, metavar="N", help="number of seeds (default: as published)")
    add_run_options(parser, "out/paper")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.lab.harness.experiment import Scale, discover, find
    from bot_orch.lab.harness.runner import Plan, reproduce

    if arguments.list:
        for experiment in discover().values():
            print(f"{experiment.id:<21} {experiment.title}")  # noqa: T201
        return 0
    check_counts(arguments, ("seeds", "jobs"))
    plan = Plan(
        find(arguments.only),
        arguments.out,
        Scale(arguments.quick, arguments.seeds),
        jobs=arguments.jobs,
        force=arguments.force,
        command=_command(arguments),
        engine=arguments.engine,
        address=arguments.address,
    )
    report = reproduce(plan, ProgressBar(quiet=arguments.quiet))
    print(f"report: {report}\ntables: {arguments.out / 'tables.csv'}")  # noqa: T201
    return 0


def _command(arguments: argparse.Namespace) -> str:
    words = ["bot-orch reproduce"]
    words += ["--only", *arguments.only] if arguments.only else []
    words += ["--quick"] if arguments.quick else []
    words += ["--seeds", str(arguments.seeds)] if arguments.seeds else []
    words += ["--engine", arguments.engine] if arguments.engine != "local" else []
    return " ".join([*words, "--jobs", str(arguments.jobs)])
