"""``bot-orch export``: write a log as CSV, JSON Lines or Parquet."""

from __future__ import annotations

import argparse
from pathlib import Path

from bot_orch.cli._archived import add_archive

EXAMPLES = """\
examples:
  bot-orch export bot-orch.sqlite decisions.csv
  bot-orch export bot-orch.sqlite events.jsonl --events
  bot-orch export bot-orch.sqlite acme.csv --tenant acme"""
DESCRIPTION = "Write one line per decision (or per event) to a file; its suffix determines the format."


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a file, or postgresql://...")
    parser.add_argument("out", type=Path, metavar="FILE", help=".csv, .jsonl or .parquet")
    parser.add_argument("--format", choices=("csv", "jsonl", "parquet"), help="overrides the suffix of FILE")
    parser.add_argument("--events", action="store_true", help="one line per event instead of per decision (jsonl)")
    parser.add_argument("--tenant", metavar="NAME", help="only what is this tenant's, with the ids that it knows")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    add_archive(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.errors import ResultsExistError
    from bot_orch.evaluation.export import export
    from bot_orch.log.stores.open import open_whole

    if arguments.out.exists() and not arguments.force:
        raise ResultsExistError(f"{arguments.out}: exists; pass --force to overwrite it")
    log = open_whole(arguments.log, arguments.archive)
    try:
        form, tenant = arguments.format, arguments.tenant
        lines = export(log, arguments.out, form=form, events=arguments.events, tenant=tenant)
    finally:
        log.close()
    print(f"{lines} lines in {arguments.out}")  # noqa: T201
    return 0
