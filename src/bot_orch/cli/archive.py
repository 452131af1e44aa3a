"""``bot-orch archive``: move old events of a log to Parquet files."""

from __future__ import annotations

import argparse
from pathlib import Path

from bot_orch.cli._terminal import ProgressBar

DESCRIPTION = """\
Move the oldest events of a log to Parquet files in a folder. The log keeps the state after them and the names that
they have used (idempotency keys, feedback ids), and goes on from there; replay, evaluate, export and spend read
archive and log as one. Files are written, read back and on disk before anything is removed; a run that was killed is
completed by the next one. Whole blocks of 4096 events are moved, never those of rounds and tickets that are open.

Stop the service first if the log is a file; in PostgreSQL it goes on. A service archives by itself with the
setting 'retention'. Needs the extra 'parquet'."""
EXAMPLES = """\
examples:
  bot-orch archive bot-orch.sqlite /srv/archive/default --older-than 30d
  bot-orch archive bot-orch.sqlite /srv/archive/default --older-than 30d --copy-only
  bot-orch archive 'postgresql://user@host/name?stream=support' /srv/archive/support --older-than 12w"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a file, or postgresql://...")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of this log alone; made if missing")
    parser.add_argument("--older-than", required=True, metavar="AGE", help="events of this age: 30d, 12h, 2w")
    parser.add_argument("--copy-only", action="store_true", help="write the files and leave the log as it is")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.clock import SystemClock
    from bot_orch.log.archive.copying import BLOCK
    from bot_orch.log.archive.moving import archive
    from bot_orch.log.purging import seconds_of

    before_us = SystemClock().now_us() - round(seconds_of(arguments.older_than, "--older-than") * 1e6)
    bar = ProgressBar(quiet=arguments.quiet)
    found = archive(
        arguments.log,
        arguments.folder,
        before_us,
        copy_only=arguments.copy_only,
        progress=lambda done, total: bar(done, total, "events"),
    )
    print(f"events archived: {found.events}, removed from the log: {found.removed}")  # noqa: T201
    if found.record is not None:
        print(f"the archive in {arguments.folder} ends with event {found.record.seq}")  # noqa: T201
    if not found.events and not found.held_by:
        old = f"events that are older than {arguments.older_than}: {found.old}"
        print(f"nothing to archive: whole blocks of {BLOCK} events are moved; {old}")  # noqa: T201
    if found.held_by:
        print(f"later events stay because of {found.held_by}")  # noqa: T201
    return 0
