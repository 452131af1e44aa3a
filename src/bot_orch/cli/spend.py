"""``bot-orch spend``: report tokens and dollars by token, tag, agent or day."""

from __future__ import annotations

import argparse
import csv
import json
import sys

from bot_orch.cli._options import add_archive
from bot_orch.cli._terminal import table

_COLUMNS = ("requests", "attempts", "errors", "input_tokens", "output_tokens", "cost_usd")
DESCRIPTION = """\
Report requests, attempts, tokens and dollars of a log by token, tag, agent or day (UTC). With --by tag a
request counts under each of its tags; the total counts every dollar once. Safe while the service is running."""
EXAMPLES = """\
examples:
  bot-orch spend bot-orch.sqlite
  bot-orch spend bot-orch.sqlite --by tag --from 2026-11-01 --to 2026-12-01
  bot-orch spend bot-orch.sqlite --by day --format csv > days.csv"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a file, or postgresql://...")
    keys = ("token", "tag", "agent", "day")
    parser.add_argument("--by", choices=keys, default="token", help="default: token")
    parser.add_argument("--from", dest="since", metavar="TIME", help="first day or time, such as 2026-11-01")
    parser.add_argument("--to", dest="until", metavar="TIME", help="day or time after the last one (exclusive)")
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table", help="default: table")
    add_archive(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from dataclasses import asdict

    from bot_orch.evaluation.spend import rows_of, spent, time_of, total_usd
    from bot_orch.log.stores.open import open_whole

    from_us = 0 if arguments.since is None else time_of(arguments.since, "--from")
    to_us = None if arguments.until is None else time_of(arguments.until, "--to")
    log = open_whole(arguments.log, arguments.archive)
    try:
        lines = spent(log, arguments.by, from_us=from_us, to_us=to_us)
        total = total_usd(log, from_us=from_us, to_us=to_us)
    finally:
        log.close()
    head, rows = (arguments.by, *_COLUMNS), rows_of(lines)
    if arguments.format == "json":
        print(json.dumps({"by": arguments.by, "lines": list(map(asdict, lines)), "cost_usd": total}))  # noqa: T201
    elif arguments.format == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows([head, *rows])
    else:
        for line in table([head, *((row[0] or "(none)", *row[1:]) for row in rows)]):
            print(line)  # noqa: T201
        print(f"total: {total:.6f} dollars")  # noqa: T201
    return 0
