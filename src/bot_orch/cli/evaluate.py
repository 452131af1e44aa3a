"""``bot-orch evaluate``: what another policy would have earned on logged traffic."""

from __future__ import annotations

import argparse
from typing import Any

_DESCRIPTION = """\
Off-policy evaluation: estimate from a log what other policies would have earned, by IPS, SNIPS, DM and DR with
confidence intervals. Refuses where the log says too little, and says why."""
_EXAMPLE = """\
examples:
  bot-orch evaluate bot-orch.sqlite --policy uniform ucb1
  bot-orch evaluate bot-orch.sqlite --policy agent:large-model --confidence 0.9"""


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "evaluate",
        help="what another policy would have earned, told from a log",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("log", metavar="LOG", help="what 'database' says: a file, or postgresql://...")
    parser.add_argument("--policy", nargs="+", required=True, metavar="P", help="a policy, agent:NAME, or uniform")
    parser.add_argument("--confidence", type=float, default=0.95, metavar="C", help="default: 0.95")
    parser.add_argument("--min-effective", type=float, default=50.0, metavar="N", help="least effective sample size")
    parser.add_argument("--max-missing", type=float, default=0.5, metavar="S", help="largest share without reward")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.eventlog.evaluation import evaluate_log
    from bot_orch.eventlog.offpolicy import ThinSupportError
    from bot_orch.eventlog.postgres_open import open_log

    log = open_log(arguments.log)
    refused = 0
    try:
        for target in arguments.policy:
            try:
                found = evaluate_log(
                    log,
                    target,
                    confidence=arguments.confidence,
                    min_effective=arguments.min_effective,
                    max_missing=arguments.max_missing,
                )
            except ThinSupportError as error:
                print(f"{target}: refused; {error}")  # noqa: T201
                refused += 1
                continue
            known = f"{found.decisions} decisions, {found.missing} without reward, logged mean {found.logged_mean:.4f}"
            print(f"{target} ({known})")  # noqa: T201
            for e in found.estimates:
                interval = f"[{e.low:.4f}, {e.high:.4f}]"
                print(f"  {e.method:<6}{e.value:>8.4f}  {interval}  effective n {e.effective_n:.0f}")  # noqa: T201
    finally:
        log.close()
    return 1 if refused else 0
