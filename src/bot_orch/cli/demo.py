"""``bot-orch demo``: serve simulated agents under simulated traffic."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from bot_orch.errors import InvalidInputError

DESCRIPTION = """\
Serve on this machine with simulated agents (one degrades over time, one games its judge, one crashes), a queue for
people, and simulated traffic; learning is visible within a minute. Prints the addresses of the dashboard and of the
queue, then each agent's share of the tasks, second by second."""
EXAMPLES = "example: bot-orch demo --seconds 60"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--seconds", type=float, default=0.0, metavar="S", help="stop after S seconds (default: never)")
    parser.add_argument("--rate", type=float, default=20.0, metavar="R", help="tasks per second (default: 20)")
    parser.add_argument("--port", type=int, default=8080, metavar="N", help="default: 8080")
    parser.add_argument("--database", default="", metavar="PATH", help="log database (default: a temporary file)")
    parser.add_argument("--quiet", action="store_true", help="print only the addresses")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.service.demo import Demo, run_demo

    for name, least in (("seconds", 0.0), ("rate", 1e-3)):
        value = getattr(arguments, name)
        if not least <= value < math.inf:
            raise InvalidInputError(f"--{name}", f"is {value:g}", f"pass a number, {least:g} or more")
    database = arguments.database
    if database and database != ":memory:" and "://" not in database:
        database = str(Path(database).resolve())

    def say(line: str) -> None:
        if not arguments.quiet or "http" in line or line == "stopped":
            print(line, flush=True)  # noqa: T201

    return run_demo(Demo(arguments.seconds, arguments.rate, arguments.port, database=database), say)
