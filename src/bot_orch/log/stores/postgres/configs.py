"""Versions of the configuration in PostgreSQL, and the version that each process runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from bot_orch.log.stores.postgres.connect import KeptConnection, driver, reaching
from bot_orch.log.stores.sql import queries

_Q = queries("postgres_config")


class ConfigVersion(NamedTuple):
    """One version with its original document; ``at`` is the time it was applied, as text."""

    number: int
    document: str
    digest: str
    revision: int
    by: str
    at: str


class ConfigMember(NamedTuple):
    """A process with a recent heartbeat: the version it runs, and why it cannot run the newest one."""

    name: str
    config: int
    problem: str


class PostgresConfigs(KeptConnection):
    """The configuration versions of one schema, over a separate connection; not thread-safe.

    Parameters
    ----------
    url
        See :class:`bot_orch.log.stores.postgres.log.PostgresLog`; its schema must exist.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, _Q)

    def current(self) -> ConfigVersion | None:
        """The version in force: the newest."""
        return next(iter(self.history(1)), None)

    def history(self, most: int = 1000) -> list[ConfigVersion]:
        """The most recent versions, newest first."""
        return [ConfigVersion(*found) for found in self._run("history", most).fetchall()]

    def superseded(self, digest: str, revision: int) -> ConfigVersion | None:
        """The version in force if it supersedes this one: an earlier version without a higher revision."""
        current = self.current()
        if current is None or current.digest == digest or revision > current.revision:
            return None
        return current if self._run("known", digest).fetchone() is not None else None

    def offer(self, document: str, digest: str, revision: int, *, by: str) -> ConfigVersion:
        """Make a document the next version unless it is in force or superseded; returns the version in force."""
        with self._alone():
            current = self.current()
            if current is not None and (current.digest == digest or self.superseded(digest, revision)):
                return current
            return self._add(document, digest, revision, by)

    def add(self, document: str, digest: str, revision: int, *, by: str) -> ConfigVersion:
        """Make a document the next version."""
        with self._alone():
            return self._add(document, digest, revision, by)

    def members(self, lease_s: float) -> list[ConfigMember]:
        """The processes with a heartbeat within ``lease_s``."""
        return [ConfigMember(*found) for found in self._run("members", lease_s).fetchall()]

    def _add(self, document: str, digest: str, revision: int, by: str) -> ConfigVersion:
        self._run("add", document, digest, revision, by)
        self._run("notify")
        return self.history(1)[0]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A transaction that locks out other processes adding versions."""
        with reaching():
            try:
                with self._open().transaction():
                    self._run("lock")
                    yield
            except driver().OperationalError:
                self.close()
                raise

    def _run(self, query: str, *arguments: Any) -> Any:
        with reaching():
            return super()._run(query, *arguments)
