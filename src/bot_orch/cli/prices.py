"""``bot-orch prices``: print the prices of models, or convert a price list."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bot_orch.cli._terminal import table

DESCRIPTION = """\
Print the prices of models in dollars per million tokens: those that ship with this release, or those of FILE, a CSV
with the same columns or LiteLLM's model_prices_and_context_window.json. Agents of known models at known hosts have
these prices unless their configuration says otherwise. List prices change: to refresh them, download LiteLLM's list,
convert it with --csv, and name the file in the setting 'prices', which counts before the shipped table."""
EXAMPLES = """\
examples:
  bot-orch prices --match gpt-4o
  bot-orch prices --from model_prices_and_context_window.json --csv > prices.csv    # config: prices: prices.csv
  bot-orch prices --from prices.csv --match claude"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--from", dest="file", type=Path, metavar="FILE", help="another price list")
    parser.add_argument("--match", default="", metavar="TEXT", help="only models and hosts that contain this")
    parser.add_argument("--csv", action="store_true", help="print CSV, as the setting 'prices' reads it")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.agents.prices import COLUMNS, read_prices, shipped_prices, written

    rows = shipped_prices() if arguments.file is None else read_prices(arguments.file)
    found = [row for row in rows if arguments.match.lower() in f"{row.host}/{row.model}".lower()]
    text = written(found)
    if arguments.csv:
        sys.stdout.write(text)
        return 0
    for line in table([COLUMNS, *(line.split(",") for line in text.splitlines()[1:])]):
        print(line)  # noqa: T201
    return 0
