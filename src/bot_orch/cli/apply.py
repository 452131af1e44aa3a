"""``bot-orch apply``: change the configuration of all processes of a service together."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bot_orch.errors import InvalidInputError

_DESCRIPTION = """\
Make FILE the configuration of all processes of a service on PostgreSQL, without a restart. It is proposed as the next
version; every living process prepares it, and all adopt it together. If one cannot (a variable is not set there, an
agent cannot be built) the version is refused with the reason, and nothing changes. Variables such as ${KEY} are stored
as written; each process replaces them from its own environment. Settings of one process alone (listen, database,
access_log, log_level, traces, snapshots.folder, cluster.address and cluster.port) stay its own.

On SQLite there is one process: apply is bot-orch reload if the service runs, and a check of FILE if it does not."""
_EXAMPLE = """\
examples:
  bot-orch apply bot-orch.yaml --dry-run
  bot-orch apply bot-orch.yaml
  bot-orch apply bot-orch.yaml --list
  bot-orch apply bot-orch.yaml --rollback
  bot-orch apply bot-orch.yaml --rollback 3"""
_PREVIOUS = -1


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "apply",
        help="change the configuration of all processes together",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="FILE", help="configuration; it names the database, too")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="say what would change, and write nothing")
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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from contextlib import closing

    from bot_orch.eventlog.stores.open import is_url
    from bot_orch.eventlog.stores.postgres.configs import PostgresConfigs
    from bot_orch.eventlog.stores.postgres.connect import prepare
    from bot_orch.service.config.documents import ConfigFile

    file = ConfigFile(arguments.config)
    database = file.database()
    if not is_url(database):
        return _on_sqlite(arguments)
    prepare(database)
    with closing(PostgresConfigs(database)) as store:
        if arguments.list:
            return _list(store)
        return _apply(file, store, arguments)


def _apply(file: Any, store: Any, arguments: argparse.Namespace) -> int:
    from bot_orch.eventlog.stores.postgres.timing import split
    from bot_orch.eventlog.versions import living
    from bot_orch.service.config.documents import differences, named_all
    from bot_orch.service.configuring.applying import apply_document, check_here, earlier, restarts_for

    rollback, current, lease_s = arguments.rollback, store.current(), split(file.database()).timing.lease_s
    document = file.text()
    if rollback is not None:
        document = earlier(store, None if rollback == _PREVIOUS else rollback).document
    unset, processes = check_here(file, document), living(store.processes(), lease_s)
    if unset is not None and not processes:
        problem = f"needs the environment variable {unset}, and no process runs that could check it"
        raise InvalidInputError("config", problem, f"set {unset}, or start a process")
    found = [] if current is None else differences(current.document, document)
    if current is not None and not found:
        print(f"version {current.number} is in force and says the same; nothing to do")  # noqa: T201
        return 0
    after = "the first version" if current is None else f"after version {current.number}: {named_all(found)}"
    print(after)  # noqa: T201
    if unset is not None:
        print(f"not checked here, {unset} is not set; the processes check it")  # noqa: T201
    if arguments.dry_run:
        print(f"dry run: nothing was proposed to {len(processes)} living process(es)")  # noqa: T201
        return 0
    done = apply_document(store, document, lease_s=lease_s, say=print)
    print(f"version {done.version.number} adopted; {done.running} of {done.living} process(es) run it")  # noqa: T201
    if restarts := restarts_for(found):
        print(f"needs a restart: {', '.join(restarts)}")  # noqa: T201
    return 0


def _list(store: Any) -> int:
    for each in store.history():
        problem = f"  {each.problem}" if each.problem else ""
        print(f"{each.number:>7}  {each.status:<8}  {each.at}  {each.digest}  {each.by}{problem}")  # noqa: T201
    for each in store.processes():
        said = each.said
        problem = f"; cannot prepare version {said.prepared}: {said.problem}" if said.problem else ""
        print(f"{each.name}: version {said.config}, heard of {each.silent_s:.1f} s ago{problem}")  # noqa: T201
    return 0


def _on_sqlite(arguments: argparse.Namespace) -> int:
    from bot_orch.cli import reload, validate

    if arguments.rollback is not None or arguments.list:
        option = "--list" if arguments.list else "--rollback"
        remedy = "apply the earlier file, or move the log: bot-orch migrate"
        raise InvalidInputError(option, "needs a log on PostgreSQL, where versions are kept", remedy)
    status = validate.validated(arguments.config)
    if status or arguments.dry_run:
        return status
    try:
        return reload.run(arguments)
    except reload.ServiceAwayError:
        print("no service runs there; the file takes effect when it starts")  # noqa: T201
        return status
