"""``bot-orch report``: spending by token, tag, agent or day, and savings against an agent."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from typing import TYPE_CHECKING

from bot_orch.cli._options import add_archive
from bot_orch.cli._terminal import table
from bot_orch.errors import InvalidInputError

if TYPE_CHECKING:
    from bot_orch.evaluation.rounds import LoggedRounds
    from bot_orch.evaluation.savings import Comparison
    from bot_orch.log.log import Log

_COLUMNS = ("requests", "attempts", "errors", "input_tokens", "output_tokens", "cost_usd")
DESCRIPTION = """\
Report requests, attempts, tokens and dollars of a log by token, tag, agent or day (UTC). With --by tag a request counts
under each of its tags; the total counts every dollar once. Safe while the service is running.

With --against also what the router saved: its dollars, reward and seconds compared with sending every request to one
agent, and with the fixed mix of two agents that costs the same, with confidence intervals (doubly robust). A log of
a service with router.observe is compared with what was served instead, request by request; --against then needs no
name. If the log has too little overlap with the alternative, only dollars are estimated, and the exit status is 1."""
EXAMPLES = """\
examples:
  bot-orch report bot-orch.sqlite
  bot-orch report bot-orch.sqlite --by tag --from 2026-11-01 --to 2026-12-01
  bot-orch report bot-orch.sqlite --by day --format csv > days.csv
  bot-orch report bot-orch.sqlite --against large small --from 2026-11-01 --confidence 0.9"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a file, or postgresql://...")
    keys = ("token", "tag", "agent", "day")
    parser.add_argument("--by", choices=keys, default="token", help="default: token")
    parser.add_argument("--from", dest="since", metavar="TIME", help="first day or time, such as 2026-11-01")
    parser.add_argument("--to", dest="until", metavar="TIME", help="day or time after the last one (exclusive)")
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table", help="default: table")
    parser.add_argument("--against", nargs="*", metavar="AGENT", help="agents to compare with")
    parser.add_argument("--confidence", type=float, default=0.95, metavar="C", help="of savings (default: 0.95)")
    add_archive(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.evaluation.spend import time_of
    from bot_orch.log.stores.open import open_whole

    from_us = 0 if arguments.since is None else time_of(arguments.since, "--from")
    to_us = None if arguments.until is None else time_of(arguments.until, "--to")
    if arguments.against is not None and (arguments.format != "table" or to_us is not None):
        raise InvalidInputError("--against", "has no --to, and no --format but table", "run the command twice")
    log = open_whole(arguments.log, arguments.archive)
    try:
        _print_spending(log, arguments, from_us=from_us, to_us=to_us)
        if arguments.against is None:
            return 0
        from bot_orch.evaluation.rounds import collect

        rounds = collect(log, from_us)
    finally:
        log.close()
    found = _compared(rounds, arguments.against, arguments.confidence)
    for each in found:
        print(f"  {each}")  # noqa: T201
    return 1 if any(each.unknown for each in found) else 0


def _print_spending(log: Log, arguments: argparse.Namespace, *, from_us: int, to_us: int | None) -> None:
    from dataclasses import asdict

    from bot_orch.evaluation.spend import rows_of, spent, total_usd

    lines = spent(log, arguments.by, from_us=from_us, to_us=to_us)
    total = total_usd(log, from_us=from_us, to_us=to_us)
    head, rows = (arguments.by, *_COLUMNS), rows_of(lines)
    if arguments.format == "json":
        print(json.dumps({"by": arguments.by, "lines": list(map(asdict, lines)), "cost_usd": total}))  # noqa: T201
    elif arguments.format == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows([head, *rows])
    else:
        for line in table([head, *((row[0] or "(none)", *row[1:]) for row in rows)]):
            print(line)  # noqa: T201
        print(f"total: {total:.6f} dollars")  # noqa: T201


def _compared(rounds: LoggedRounds, against: list[str], confidence: float) -> list[Comparison]:
    """The comparisons, after a line that says with what."""
    from bot_orch.evaluation.savings import compare, mix_of_same_cost, observed, served_requests

    paired = observed(rounds, confidence=confidence)
    if paired is not None:
        print("The router, had it served, compared with")  # noqa: T201
        return [paired]
    if not against:
        raise InvalidInputError("--against", "has no agent", "name agents to compare with")
    requests = served_requests(rounds)
    found = [compare(requests, name, confidence=confidence) for name in against]
    mix = mix_of_same_cost(requests)
    if mix is not None:
        shares = zip(mix.tolist(), requests.agents, strict=True)
        name = " + ".join(f"{100.0 * share:.0f} % {agent}" for share, agent in shares if share > 0.0)
        found.append(compare(requests, mix, name=f"{name} (a mix of the same cost)", confidence=confidence))
    promised = rounds.configured().settings.guarantee
    if promised is not None and rounds.span_s:
        needed = promised.rounds_needed() or 0
        days = needed * rounds.span_s / 86_400.0 / len(requests)
        print(f"The guarantee needs about {needed} requests with rewards, {days:.1f} days at this log's rate.")  # noqa: T201
    print("The router, compared with sending every request to")  # noqa: T201
    return found
