"""``bot-orch export``: write a log as CSV, JSON Lines or Parquet."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from bot_orch.cli._options import add_archive
from bot_orch.cli._terminal import ProgressBar

EXAMPLES = """\
examples:
  bot-orch export bot-orch.sqlite decisions.csv
  bot-orch export bot-orch.sqlite events.jsonl --events
  bot-orch export bot-orch.sqlite /srv/archive/default --before 2026-01-01 --delete"""
DESCRIPTION = """\
Write one line per decision (or per event) to a file; its suffix determines the format.

With --before, write the events before a time to Parquet files in a folder, and with --delete remove them from the log.
The log keeps the state after them and the names that they have used (idempotency keys, feedback ids); replay, evaluate,
export and report read files and log as one. Files are read back and on disk before anything is removed; a run that was
killed is completed by the next one. Events of rounds and tickets that are open stay. Stop the service first if the log
is a file; in PostgreSQL it goes on. A service does it daily with the setting 'retention'. Needs the extra 'parquet'."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a file, or postgresql://...")
    parser.add_argument("out", type=Path, metavar="FILE", help=".csv, .jsonl or .parquet; a folder with --before")
    parser.add_argument("--format", choices=("csv", "jsonl", "parquet"), help="overrides the suffix of FILE")
    parser.add_argument("--events", action="store_true", help="one line per event instead of per decision (jsonl)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument("--before", metavar="WHEN", help="events before a date (2026-01-31), or of an age (30d, 2w)")
    parser.add_argument("--delete", action="store_true", help="with --before: remove the events from the log")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    add_archive(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.errors import InvalidInputError, ResultsExistError
    from bot_orch.evaluation.export import export
    from bot_orch.log.stores.open import open_whole

    if arguments.before is not None:
        return _move(arguments)
    if arguments.delete:
        raise InvalidInputError("--delete", "is given without --before", "say which events, such as --before 90d")
    if arguments.out.exists() and not arguments.force:
        raise ResultsExistError(f"{arguments.out}: exists; pass --force to overwrite it")
    log = open_whole(arguments.log, arguments.archive)
    try:
        lines = export(log, arguments.out, form=arguments.format, events=arguments.events)
    finally:
        log.close()
    print(f"{lines} lines in {arguments.out}")  # noqa: T201
    return 0


def _move(arguments: argparse.Namespace) -> int:
    """Write old events to files, and remove them."""
    from bot_orch.log.archiving import move_events

    bar = ProgressBar(quiet=arguments.quiet)
    found = move_events(
        arguments.log,
        arguments.out,
        _before_us(arguments.before),
        delete=arguments.delete,
        progress=lambda done, total: bar(done, total, "events"),
    )
    print(f"events written: {found.events}, removed from the log: {found.removed}")  # noqa: T201
    if found.record is not None:
        print(f"the files in {arguments.out} end with event {found.record.seq}")  # noqa: T201
    if found.held_by:
        print(f"later events stay because of {found.held_by}")  # noqa: T201
    return 0


def _before_us(text: str) -> int:
    """Microseconds since 1970 of a date, in UTC, or of an age."""
    from bot_orch.clock import SystemClock, seconds_of

    try:
        return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e6)
    except ValueError:
        return SystemClock().now_us() - round(seconds_of(text, "--before") * 1e6)
