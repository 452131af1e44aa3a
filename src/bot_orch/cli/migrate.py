"""``bot-orch migrate``: move a log from SQLite to PostgreSQL."""

from __future__ import annotations

import argparse

from bot_orch.cli._terminal import ProgressBar

DESCRIPTION = """\
Copy a log with its order, times and keys from SQLite to PostgreSQL, then derive every decision again from the copy and
compare its state with that of the original. Stop the service first. An interrupted copy resumes where it stopped; a
database with another log is refused. Exit status 1 if the states differ."""
EXAMPLES = """\
examples:
  bot-orch migrate bot-orch.sqlite postgresql://bot@db.example/orch
  bot-orch migrate bot-orch.sqlite "$DATABASE_URL" --close"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("source", metavar="FROM", help="the SQLite file")
    parser.add_argument("target", metavar="TO", help="postgresql://user@host:5432/database; the schema is created")
    parser.add_argument("--close", action="store_true", help="compare with nine digits, for a log from another machine")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.errors import InvalidInputError
    from bot_orch.log.stores.open import check_database, is_url, open_file, open_url
    from bot_orch.log.stores.postgres.copy import copy_log, verify

    if is_url(arguments.source) or not is_url(arguments.target):
        raise InvalidInputError("FROM TO", "are not a SQLite file and a URL", "write FILE postgresql://user@host/name")
    check_database(arguments.target, "TO")
    open_file(arguments.source).close()  # fails if the file does not exist, which writing=True would create
    source = open_file(arguments.source, writing=True)  # takes the lock, so that the service cannot write meanwhile
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
