"""``bot-orch purge``: remove texts, or all of a person, from a log."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = """\
Remove the texts that a log holds (--older-than, --task): inputs and outputs of ended rounds (/v1/tasks), and what
people read and wrote in the queue. Decisions, outcomes, times and numbers stay: replay and evaluate give the same
results.

Or erase decisions (--user, --before, or both): besides the texts their features, measures,
task names, sessions, tags, ids of reports and idempotency keys. Agent, probabilities, rewards, times, tokens and
dollars stay. What was learned stays and goes on from a note in the log; the command prints what the learned state
holds. A user's decisions are those of the session USER, of the OpenAI field user with sticky_by: user, and with the tag
USER or user:USER.

What has not ended stays, because a restart needs it. Stop the service first; a log in use is refused."""
EXAMPLES = """\
examples:
  bot-orch purge bot-orch.sqlite --older-than 30d
  bot-orch purge bot-orch.sqlite --older-than 30d --archive /srv/archive
  bot-orch purge bot-orch.sqlite --task order-7
  bot-orch purge bot-orch.sqlite --user user-42
  bot-orch purge bot-orch.sqlite --before 2026-01-01
  bot-orch purge postgresql://user@host/name --older-than 30d"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a SQLite file or a PostgreSQL URL")
    parser.add_argument("--older-than", metavar="AGE", help="only texts of this age: 30d, 12h, 2w")
    parser.add_argument(
        "--task", metavar="ID", help="only texts of this task: its id, its decision's, or your own name"
    )
    parser.add_argument("--archive", type=Path, metavar="DIR", help="first write the texts to a new file in DIR")
    parser.add_argument("--user", metavar="USER", help="erase the decisions of this user")
    parser.add_argument("--before", metavar="DATE", help="erase the decisions before this day or time (UTC)")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.errors import InvalidInputError

    texts = [arguments.older_than, arguments.task]
    decisions = [arguments.user, arguments.before]
    if not any(each is not None for each in (*texts, *decisions)):
        remedy = "pass one of them, or --user or --before"
        raise InvalidInputError("--older-than", "and --task are missing", remedy)
    for name, each in zip(("--user", "--before"), decisions, strict=True):
        if each == "":
            raise InvalidInputError(name, "is empty", "leave it out, or name whose decisions to erase")
    if any(each is not None for each in decisions):
        if any(each is not None for each in (*texts, arguments.archive)):
            problem = "erase decisions, the other options remove texts"
            raise InvalidInputError("--user and --before", problem, "run the command twice")
        return _erase(arguments)
    return _purge(arguments)


def _erase(arguments: argparse.Namespace) -> int:
    from bot_orch.evaluation.spend import time_of
    from bot_orch.log.erasure import Subject, erase

    before_us = None if arguments.before is None else time_of(arguments.before, "--before")
    found = erase(arguments.log, Subject(arguments.user, before_us))
    if arguments.user is not None and not found.events and not found.kept:
        print(  # noqa: T201
            f"no decision is known of user {arguments.user!r}, nothing was erased; the log knows a user by session or "
            "tag, and by the OpenAI field user only if sticky_by: user was set"
        )
        return 1
    said = ", ".join(f"{number} {kind.partition('@')[0]}" for kind, number in sorted(found.events.items()))
    print(f"events emptied: {found.events.total()}" + (f" ({said})" if said else ""))  # noqa: T201
    print(f"decisions that stay until they have ended: {found.kept}")  # noqa: T201
    print("the learned state still holds:")  # noqa: T201
    for name, shape, what in found.held:
        print(f"  {name} {' x '.join(map(str, shape)) or '1'}: {what}")  # noqa: T201
    return 0


def _purge(arguments: argparse.Namespace) -> int:
    from bot_orch.clock import SystemClock
    from bot_orch.log.purging import purge, seconds_of

    before_us = None
    if arguments.older_than is not None:
        before_us = SystemClock().now_us() - round(seconds_of(arguments.older_than, "--older-than") * 1e6)
    found = purge(arguments.log, before_us=before_us, task=arguments.task, archive=arguments.archive)
    print(f"texts removed from {found.rows} events")  # noqa: T201
    if found.archive is not None:
        print(f"archived in {found.archive}")  # noqa: T201
    return 0
