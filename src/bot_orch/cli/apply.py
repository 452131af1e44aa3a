"""``bot-orch apply``: change the configuration of a running service."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bot_orch.errors import InvalidInputError

DESCRIPTION = """\
Put FILE into effect without a restart. It is checked first; a file with a mistake changes nothing. Agents, prices,
rules, routers, tokens and log_level change between two requests, and none in flight is dropped. Settings that need a
restart (database, listen, queue, limits) are named. SIGHUP does the same.

On PostgreSQL the file becomes the next version for all processes. Each puts it into effect in the routers that it owns;
one that cannot (a variable is not set there) goes on with its version, and the command says why. Variables such as
${KEY} are stored as written; each process replaces them from its own environment. Settings of one process alone
(listen, database, access_log, log_level, traces, cluster.address, cluster.port) stay its own.

On SQLite the running service reads the file that it was started with again. The token, with the scope admin, is in
BOT_ORCH_TOKEN. If no service runs, the file is only checked; --dry-run always only checks it there."""
EXAMPLES = """\
examples:
  bot-orch apply bot-orch.yaml --dry-run
  bot-orch apply bot-orch.yaml
  bot-orch apply bot-orch.yaml --url http://127.0.0.1:9000
  bot-orch apply bot-orch.yaml --list
  bot-orch apply bot-orch.yaml --rollback
  bot-orch apply bot-orch.yaml --rollback 3"""
_PREVIOUS = -1
_LOOK_S, _PATIENCE_S = 0.1, 5.0


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("config", type=Path, metavar="FILE", help="configuration; it names the database, too")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="write nothing; on PostgreSQL say what would change")
    what.add_argument(
        "--rollback",
        type=int,
        nargs="?",
        const=_PREVIOUS,
        metavar="VERSION",
        help="apply an earlier version again (default: the one before)",
    )
    what.add_argument("--list", action="store_true", help="list versions and processes")
    parser.add_argument("--url", help="on SQLite: where the service listens (default: as FILE says)")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from contextlib import closing

    from bot_orch.log.stores.open import is_url
    from bot_orch.log.stores.postgres.configs import PostgresConfigs
    from bot_orch.log.stores.postgres.connect import prepare, split
    from bot_orch.service.config.documents import ConfigFile

    file = ConfigFile(arguments.config)
    database = file.database()
    if not is_url(database):
        return _on_sqlite(arguments)
    prepare(database)
    with closing(PostgresConfigs(database)) as store:
        if arguments.list:
            return _list(store, split(database).timing.lease_s)
        return _apply(file, store, arguments)


def _apply(file: Any, store: Any, arguments: argparse.Namespace) -> int:
    from bot_orch.log.stores.postgres.connect import split
    from bot_orch.service.config.documents import differences, digest_of_document, named_all, revision_of
    from bot_orch.service.configuring import FIXED, check_file, whoami

    current, document = store.current(), file.text()
    if arguments.rollback is not None:
        document = _earlier(store, None if arguments.rollback == _PREVIOUS else arguments.rollback)
    check_file(file, document)
    found = [] if current is None else differences(current.document, document)
    if current is not None and not found:
        print(f"version {current.number} is in force and says the same; nothing to do")  # noqa: T201
        return 0
    print("the first version" if current is None else f"after version {current.number}: {named_all(found)}")  # noqa: T201
    if arguments.dry_run:
        print("dry run: nothing was applied")  # noqa: T201
        return 0
    version = store.add(document, digest_of_document(document), revision_of(document), by=whoami())
    print(f"version {version.number} applied", flush=True)  # noqa: T201
    status = _wait(store, version.number, split(file.database()).timing.lease_s)
    if restarts := sorted({each.partition(" ")[0].partition(".")[0] for each in found} & set(FIXED)):
        print(f"needs a restart: {', '.join(restarts)}")  # noqa: T201
    return status


def _wait(store: Any, number: int, lease_s: float) -> int:
    """Wait until every process runs a version or reports why it cannot; returns 1 if one cannot."""
    import time

    end = time.monotonic() + lease_s + _PATIENCE_S
    while True:
        here = store.members(lease_s)
        behind = [each for each in here if each.config < number]
        if all(each.problem for each in behind) or time.monotonic() > end:
            break
        time.sleep(_LOOK_S)
    print(f"{len(here) - len(behind)} of {len(here)} process(es) run it")  # noqa: T201
    for each in behind:
        reason = each.problem or "it has not answered yet"
        print(f"{each.name} goes on with version {each.config}: {reason}")  # noqa: T201
    return 1 if behind else 0


def _earlier(store: Any, number: int | None) -> str:
    """The document to roll back to: a given version, or the last one that differs from the current."""
    from bot_orch.service.config.documents import differences

    known = store.history()
    if number is None:
        found = next((each for each in known[1:] if differences(each.document, known[0].document)), None)
    else:
        found = next((each for each in known if each.number == number), None)
    if found is None:
        numbers = ", ".join(str(each.number) for each in reversed(known)) or "none"
        what = "there is no earlier version" if number is None else f"there is no version {number}"
        raise InvalidInputError("--rollback", what, f"versions: {numbers}")
    return str(found.document)


def _list(store: Any, lease_s: float) -> int:
    for each in store.history():
        print(f"{each.number:>7}  {each.at}  {each.digest}  {each.by}")  # noqa: T201
    for each in store.members(lease_s):
        problem = f"; cannot run the newest: {each.problem}" if each.problem else ""
        print(f"{each.name}: version {each.config}{problem}")  # noqa: T201
    return 0


def _on_sqlite(arguments: argparse.Namespace) -> int:
    from bot_orch.cli import validate

    if arguments.rollback is not None or arguments.list:
        option = "--list" if arguments.list else "--rollback"
        remedy = "apply the earlier file"
        raise InvalidInputError(option, "needs a log on PostgreSQL, where versions are kept", remedy)
    status = validate.validated(arguments.config)
    if not status and arguments.dry_run:
        print("dry run: the file was checked, not compared with the service, and nothing was applied")  # noqa: T201
        return 0
    return status or _reload(arguments)


def _reload(arguments: argparse.Namespace) -> int:
    """Make the service read its file again, and print the changes."""
    from bot_orch.cli._service import ask
    from bot_orch.service.config import load_config

    listen = load_config(arguments.config).listen
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(listen.host, listen.host)  # noqa: S104  to reach it, not to listen
    found = ask(arguments.url or f"http://{host}:{listen.port}", "POST", "/v1/admin/reload", absent_is_none=True)
    if found is None:
        print("no service runs there; the file takes effect when it starts")  # noqa: T201
        return 0
    changed, after_restart = list(found["changed"]), list(found["after_restart"])
    print(f"changed: {', '.join(changed) or 'nothing'}")  # noqa: T201
    if after_restart:
        print(f"needs a restart: {', '.join(after_restart)}")  # noqa: T201
    return 0
