"""``bot-orch erase``: erase a user's decisions, or old texts, from a log."""

from __future__ import annotations

import argparse
import textwrap

from bot_orch.errors import InvalidInputError

DESCRIPTION = """\
Erase ended decisions (--user, --before, or both): texts, features, measures, task names, sessions, tags, ids of reports
and idempotency keys. Agent, probabilities, rewards, times, tokens and dollars stay. What was learned stays and goes on
from a note in the log; the command prints what the learned state holds. A user's decisions are those of the session
USER, and with the tag USER or user:USER.

Or only the texts of a log (--texts-older-than): inputs and outputs of ended rounds (/v1/tasks), and what people read
and wrote in the queue. Decisions, outcomes, times and numbers stay: replay and evaluate give the same results.

What has not ended stays, because a restart needs it. Stop the service first; a log in use is refused."""
EXAMPLES = """\
examples:
  bot-orch erase bot-orch.sqlite --user user-42
  bot-orch erase bot-orch.sqlite --before 2026-01-01
  bot-orch erase bot-orch.sqlite --texts-older-than 30d
  bot-orch erase postgresql://user@host/name --texts-older-than 30d"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a SQLite file or a PostgreSQL URL")
    parser.add_argument("--user", metavar="USER", help="erase the decisions of this user")
    parser.add_argument("--before", metavar="DATE", help="erase the decisions before this day or time (UTC)")
    parser.add_argument("--texts-older-than", metavar="AGE", help="remove only texts, of this age: 30d, 12h, 2w")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    decisions = [arguments.user, arguments.before]
    if any(each == "" for each in decisions):
        raise InvalidInputError("--user or --before", "is empty", "leave it out, or name whose decisions to erase")
    wanted = any(each is not None for each in decisions)
    if wanted == (arguments.texts_older_than is not None):
        what = "together with --texts-older-than" if wanted else "missing"
        remedy = "say whose decisions to erase, or with --texts-older-than which texts"
        raise InvalidInputError("--user or --before", f"is {what}", remedy)
    return _erase(arguments) if wanted else _erase_texts(arguments)


def _erase(arguments: argparse.Namespace) -> int:
    from bot_orch.evaluation.spend import time_of
    from bot_orch.log.erasure import Subject, erase

    before_us = None if arguments.before is None else time_of(arguments.before, "--before")
    found = erase(arguments.log, Subject(arguments.user, before_us))
    if arguments.user is not None and not found.events and not found.kept:
        print(  # noqa: T201
            f"no decision is known of user {arguments.user!r}, nothing was erased; the log knows a user by session or "
            "tag alone"
        )
        return 1
    said = ", ".join(f"{number} {kind.partition('@')[0]}" for kind, number in sorted(found.events.items()))
    print(f"events emptied: {found.events.total()}" + (f" ({said})" if said else ""))  # noqa: T201
    print(f"decisions that stay until they have ended: {found.kept}")  # noqa: T201
    print("the learned state still holds:")  # noqa: T201
    arrays: dict[str, list[str]] = {}
    for name, shape, what in found.held:
        arrays.setdefault(what, []).append(f"{name}[{','.join(map(str, shape))}]")
    for what, names in sorted(arrays.items(), key=lambda each: len(each[1])):
        print(textwrap.fill(f"{what}: {', '.join(names)}", 118, initial_indent="  ", subsequent_indent="    "))  # noqa: T201
    return 0


def _erase_texts(arguments: argparse.Namespace) -> int:
    from bot_orch.clock import SystemClock, seconds_of
    from bot_orch.log.erasure import erase_texts

    age_s = seconds_of(arguments.texts_older_than, "--texts-older-than")
    removed = erase_texts(arguments.log, SystemClock().now_us() - round(age_s * 1e6))
    print(f"texts removed from {removed} events")  # noqa: T201
    return 0
