"""``bot-orch savings``: the router's savings against one agent, or a fixed mix of the same cost."""

from __future__ import annotations

import argparse

from bot_orch.errors import InvalidInputError

DESCRIPTION = """\
Compare what a log's router spent and earned with sending every request to one agent, and with the fixed mix of two
agents that costs the same: dollars in total, reward and seconds per request, with confidence intervals (doubly robust).
A log of mode observe is compared with what was served instead, request by request. If the log has too little overlap
with the alternative, only dollars are estimated, and the exit status is 1."""
EXAMPLES = """\
examples:
  bot-orch savings bot-orch.sqlite --against large
  bot-orch savings bot-orch.sqlite                  (of mode observe)
  bot-orch savings bot-orch.sqlite --against large small --since 2026-11-01 --confidence 0.9"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a file, or postgresql://...")
    parser.add_argument("--against", nargs="+", metavar="AGENT", help="agents to compare with")
    parser.add_argument("--since", metavar="DATE", help="leave out earlier requests: 2026-11-30, or with a time")
    parser.add_argument("--confidence", type=float, default=0.95, metavar="C", help="default: 0.95")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.evaluation.rounds import collect
    from bot_orch.evaluation.savings import compare, mix_of_same_cost, observed, served_requests
    from bot_orch.evaluation.spend import time_of
    from bot_orch.log.stores.open import open_whole

    since_us = 0 if arguments.since is None else time_of(arguments.since, "--since")
    log = open_whole(arguments.log, None)
    try:
        rounds = collect(log, since_us)
    finally:
        log.close()
    paired = observed(rounds, confidence=arguments.confidence)
    if paired is not None:
        print(f"The router, had it served, compared with\n  {paired}")  # noqa: T201
        return 1 if paired.unknown else 0
    if not arguments.against:
        raise InvalidInputError("--against", "is missing", "name agents to compare with")
    requests = served_requests(rounds)
    found = [compare(requests, name, confidence=arguments.confidence) for name in arguments.against]
    mix = mix_of_same_cost(requests)
    if mix is not None:
        shares = zip(mix.tolist(), requests.agents, strict=True)
        name = " + ".join(f"{100.0 * share:.0f} % {agent}" for share, agent in shares if share > 0.0)
        found.append(compare(requests, mix, name=f"{name} (a mix of the same cost)", confidence=arguments.confidence))
    promised = rounds.configured().settings.guarantee
    if promised is not None and rounds.span_s:
        needed = promised.rounds_needed() or 0
        days = needed * rounds.span_s / 86_400.0 / len(requests)
        print(f"The guarantee needs about {needed} requests with rewards, {days:.1f} days at this log's rate.")  # noqa: T201
    print("The router, compared with sending every request to")  # noqa: T201
    for each in found:
        print(f"  {each}")  # noqa: T201
    return 1 if any(each.unknown for each in found) else 0
