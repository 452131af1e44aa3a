"""Open a log from the ``database`` setting: a path, a PostgreSQL URL or ``:memory:``."""

from __future__ import annotations

from pathlib import Path

from bot_orch.errors import InvalidInputError
from bot_orch.log.archive import whole
from bot_orch.log.log import Log
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.stores.postgres.connect import heed_the_driver
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.stores.postgres.rewrite import check_unused
from bot_orch.log.stores.sqlite.lock import check_names
from bot_orch.log.stores.sqlite.log import SqliteLog

_SCHEMES = ("postgres", "postgresql")


def open_log(database: str | Path, *, writing: bool = False, name: str = "log") -> Log:
    """Open the log at a path, a PostgreSQL URL or ``:memory:``; read-only and existing unless ``writing``.

    ``name`` is what errors call the database.

    Examples
    --------
    >>> open_log(":memory:", writing=True).last()
    (0, 0)
    >>> open_log("mysql://host/name")
    Traceback (most recent call last):
    ...
    bot_orch.errors.InvalidInputError: log: has the scheme 'mysql'; write a path, postgresql://..., or :memory:
    """
    check_database(database, name)
    if is_url(database):
        return open_url(str(database), writing=writing)
    if writing and str(database) == ":memory:":
        return MemoryLog()
    return open_file(database, writing=writing)


def open_whole(database: str | Path, archive: str | Path | None = None) -> Log:
    """An existing log, to look at, with the events that were moved to its archive.

    ``archive`` is the folder of the archive, if it is not where the log says.
    """
    log = open_log(database)
    try:
        return whole(log, archive)
    except BaseException:
        log.close()
        raise


def open_file(path: str | Path, *, writing: bool = False) -> SqliteLog:
    """A log in a file; made if ``writing``."""
    return SqliteLog(path, read_only=not writing)


def open_url(url: str, *, writing: bool = False) -> PostgresLog:
    """A log in PostgreSQL; made if ``writing``."""
    if writing:
        heed_the_driver()
    return PostgresLog(url, read_only=not writing)


def open_unused(database: str | Path) -> SqliteLog | PostgresLog:
    """An existing log that no service uses: a file is locked against other writers."""
    check_database(database)
    if not is_url(database):
        open_file(database).close()  # fails if the file does not exist, which writing=True would create
        return open_file(database, writing=True)
    log = open_url(str(database))
    try:
        check_unused(log)
    except BaseException:
        log.close()
        raise
    return log


def is_url(database: str | Path) -> bool:
    """Whether this is a URL rather than a path; a :class:`Path` is never a URL."""
    return isinstance(database, str) and "://" in database


def check_database(database: str | Path, name: str = "log") -> None:
    """Refuse URLs of other databases, and files with several hard links."""
    scheme = str(database).partition("://")[0]
    if is_url(database) and scheme not in _SCHEMES:
        raise InvalidInputError(name, f"has the scheme {scheme!r}", "write a path, postgresql://..., or :memory:")
    if not is_url(database) and Path(database).is_file():
        check_names(Path(database), Path(database).stat(), name)
