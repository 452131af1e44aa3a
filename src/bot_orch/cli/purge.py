"""``bot-orch purge``: remove stored texts from a log."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = """\
Remove the texts that a log holds: inputs and outputs of ended rounds (/v1/tasks), and what people read and wrote in the
queue. Decisions, outcomes, times and numbers stay: replay and evaluate give the same results. Texts of rounds that have
not ended stay, because a restart needs them. Stop the service first; a log in use is refused."""
EXAMPLES = """\
examples:
  bot-orch purge bot-orch.sqlite --older-than 30d
  bot-orch purge bot-orch.sqlite --older-than 30d --archive /srv/archive
  bot-orch purge bot-orch.sqlite --task order-7
  bot-orch purge postgresql://user@host/name --older-than 30d"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a SQLite file or a PostgreSQL URL")
    parser.add_argument("--older-than", metavar="AGE", help="only texts of this age: 30d, 12h, 2w")
    parser.add_argument(
        "--task", metavar="ID", help="only texts of this task: its id, its decision's, or your own name"
    )
    parser.add_argument("--archive", type=Path, metavar="DIR", help="first write the texts to a new file in DIR")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.clock import SystemClock
    from bot_orch.errors import InvalidInputError
    from bot_orch.log.purging import purge, seconds_of

    if arguments.older_than is None and arguments.task is None:
        raise InvalidInputError("--older-than", "and --task are missing", "pass one of them, such as --older-than 30d")
    before_us = None
    if arguments.older_than is not None:
        before_us = SystemClock().now_us() - round(seconds_of(arguments.older_than, "--older-than") * 1e6)
    found = purge(arguments.log, before_us=before_us, task=arguments.task, archive=arguments.archive)
    print(f"texts removed from {found.rows} events")  # noqa: T201
    if found.archive is not None:
        print(f"archived in {found.archive}")  # noqa: T201
    return 0
