"""``bot-orch copy``: back up a log to a SQLite file, or move it to PostgreSQL."""

from __future__ import annotations

import argparse
from pathlib import Path

from bot_orch.cli._terminal import ProgressBar

DESCRIPTION = """\
Copy a log with its order, times and keys.

To a new SQLite file: a backup, also while the service writes. The copy holds everything that was acknowledged before
the command began, and gets its name once it is on disk and was compared with the original. The copy of a SQLite file
names the same archive; the copy of a log in PostgreSQL contains the events of its archive.

To PostgreSQL: a move. Stop the service first. Every decision is derived again from the copy, and its state compared
with that of the original; exit status 1 if they differ. An interrupted copy resumes where it stopped; a database with
another log is refused."""
EXAMPLES = """\
examples:
  bot-orch copy bot-orch.sqlite backup.sqlite
  bot-orch copy "$DATABASE_URL" backup.sqlite
  bot-orch copy bot-orch.sqlite postgresql://bot@db.example/orch
  bot-orch copy bot-orch.sqlite "$DATABASE_URL" --close"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("source", metavar="FROM", help="the 'database' setting: a SQLite file or a PostgreSQL URL")
    parser.add_argument("target", metavar="TO", help="a new file, or postgresql://user@host:5432/database")
    parser.add_argument(
        "--close", action="store_true", help="to PostgreSQL: compare with six digits, for a log from another machine"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.errors import InvalidInputError
    from bot_orch.log.stores.open import check_database, is_url

    check_database(arguments.source, "FROM")
    check_database(arguments.target, "TO")
    if is_url(arguments.target):
        return _move(arguments)
    if arguments.close:
        raise InvalidInputError("--close", "is for a copy to PostgreSQL", "leave it out; a file is compared exactly")
    return _back_up(arguments)


def _back_up(arguments: argparse.Namespace) -> int:
    from bot_orch.log.stores.copy import back_up
    from bot_orch.log.stores.open import is_url, open_file, open_url

    source = open_url(arguments.source) if is_url(arguments.source) else open_file(arguments.source)
    bar = ProgressBar(quiet=arguments.quiet)
    try:
        last = back_up(source, Path(arguments.target), lambda done, total: bar(done, total, "events copied"))
    finally:
        source.close()
    print(f"{arguments.target}: events up to {last}")  # noqa: T201
    return 0


def _move(arguments: argparse.Namespace) -> int:
    from bot_orch.log.stores.copy import copy_log, verify
    from bot_orch.log.stores.open import open_unused, open_url

    source = open_unused(arguments.source)  # so that no service writes meanwhile
    try:
        target = open_url(arguments.target, writing=True)
        bar = ProgressBar(quiet=arguments.quiet)
        try:
            copied = copy_log(source, target, progress=lambda done, total: bar(done, total, "events copied"))
            found = verify(source, target, exact=not arguments.close)
        finally:
            target.close()
    finally:
        source.close()
    print(f"events copied: {copied}, in the copy: {found.events}")  # noqa: T201
    print(f"decisions derived again: {found.derived}, different: {found.different}")  # noqa: T201
    print(f"state of the original: {found.original}")  # noqa: T201
    print(f"state of the copy:     {found.copy}")  # noqa: T201
    print("the copy is identical" if found.ok else "THE COPY DIFFERS; do not use it")  # noqa: T201
    return 0 if found.ok else 1
