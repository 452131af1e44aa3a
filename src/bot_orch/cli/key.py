"""``bot-orch key``: create, list, rotate and revoke keys of a running service."""

from __future__ import annotations

import argparse

from bot_orch.cli._terminal import table

_HERE = "http://127.0.0.1:8080"
DESCRIPTION = """\
Keys let callers in, like the tokens of the configuration file. The log keeps their SHA-256 and who made them; a key is
shown once. create makes one, rotate makes another with the same rights and lets the old one work for a day, revoke ends
one (within seconds in processes that do not own the router). The token of the caller, with the scope admin, is in
BOT_ORCH_TOKEN."""
EXAMPLES = """\
examples:
  bot-orch key create web-shop --scopes decide feedback --days 90
  bot-orch key list
  bot-orch key rotate 3f0c9a71d2be
  bot-orch key revoke 3f0c9a71d2be --url https://orch.example"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("action", choices=("create", "list", "rotate", "revoke"))
    parser.add_argument("key", nargs="?", metavar="KEY", help="create: a name; rotate, revoke: the id that list shows")
    parser.add_argument("--scopes", nargs="+", default=["decide", "feedback"], help="default: decide feedback")
    parser.add_argument("--days", type=float, help="after how many days it expires (default: never)")
    parser.add_argument("--tags", nargs="+", default=[], help="tags of its decisions")
    parser.add_argument("--url", default=_HERE, help="where the service listens (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.cli._service import ask
    from bot_orch.errors import InvalidInputError

    place, action = "/v1/admin/keys", arguments.action
    if action == "list":
        keys = ask(arguments.url, "GET", place)
        rows = [(each["id"], each["name"], " ".join(each["scopes"]), _day(each), each["by"]) for each in keys]
        for line in table([("id", "name", "scopes", "expires", "made by"), *rows]):
            print(line)  # noqa: T201
        return 0
    if not arguments.key:
        needed = "a name for the key" if action == "create" else "the id of a key; list shows them"
        raise InvalidInputError("KEY", "is missing", f"pass {needed}")
    if action == "create":
        names = ("scopes", "days", "tags")
        rights = {each: getattr(arguments, each) for each in names}
        made = ask(arguments.url, "POST", place, {"name": arguments.key, **rights})
    else:
        made = ask(arguments.url, "POST", f"{place}/{arguments.key}/{action}")
    if action == "revoke":
        print(f"{made['id']} ({made['name']}) is revoked")  # noqa: T201
        return 0
    print(f"key {made['id']} ({made['name']}), scopes {' '.join(made['scopes'])}, expires {_day(made)}")  # noqa: T201
    print(made["token"])  # noqa: T201
    return 0


def _day(key: dict[str, object]) -> str:
    from datetime import UTC, datetime

    expires = key.get("expires_us")
    return f"{datetime.fromtimestamp(expires / 1e6, UTC):%Y-%m-%d}" if isinstance(expires, int) else "never"
