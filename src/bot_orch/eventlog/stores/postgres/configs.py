"""Versions of the configuration in PostgreSQL, and the processes that run them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bot_orch.eventlog.stores.postgres.connect import connect, driver, reaching
from bot_orch.eventlog.stores.sqlfiles import queries
from bot_orch.eventlog.versions import (
    ADOPTED,
    PROPOSED,
    ConfigVersion,
    Decide,
    ProcessSeen,
    ProcessSelf,
    ProposalPendingError,
    ProposalVerdict,
)

__all__ = ["PostgresConfigs"]

_Q = queries("postgres_config")


class PostgresConfigs:
    """See :class:`bot_orch.eventlog.versions.ConfigStore`; for one thread at a time.

    Parameters
    ----------
    url
        As that of :class:`bot_orch.eventlog.stores.postgres.log.PostgresLog`; its schema must have been made.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None
        self._ended = threading.Event()

    def abort(self) -> None:
        """See :class:`bot_orch.eventlog.versions.ConfigStore`."""
        self._ended.set()

    def current(self) -> ConfigVersion | None:
        """See :class:`bot_orch.eventlog.versions.ConfigStore`."""
        return self._one("current")

    def proposal(self) -> ConfigVersion | None:
        """The open proposal."""
        return self._one("proposal")

    def history(self, most: int = 1000) -> list[ConfigVersion]:
        """All versions, the newest first."""
        return [ConfigVersion(*found) for found in self._ask("history", most)]

    def first(self, document: str, digest: str, by: str) -> ConfigVersion:
        """See :class:`bot_orch.eventlog.versions.ConfigStore`."""
        with self._alone():
            found = self._one("current")
            if found is None:
                self._ask("add", document, digest, by, ADOPTED)
                found = self._one("current")
        assert found is not None  # noqa: S101  it was added
        return found

    def propose(self, document: str, digest: str, by: str) -> ConfigVersion:
        """See :class:`bot_orch.eventlog.versions.ConfigStore`."""
        with self._alone():
            pending = self._one("proposal")
            if pending is not None:
                problem = f"version {pending.number} is being proposed by {pending.by}"
                raise ProposalPendingError(f"config: {problem}; try again when it is adopted or refused")
            self._ask("add", document, digest, by, PROPOSED)
            found = self._one("proposal")
        assert found is not None  # noqa: S101  it was added
        return found

    def join(self, name: str, known: int) -> tuple[int, ConfigVersion | None]:
        """See :class:`bot_orch.eventlog.versions.ConfigStore`."""
        with self._alone():
            found = self._one("current")
            if found is None or found.number != known:
                return 0, found
            self._run("forget")
            return int(self._ask("join", name, known, known)[0][0]), found

    def beat(self, process: int, said: ProcessSelf, known: int, *, name: str) -> list[ConfigVersion]:
        """See :class:`bot_orch.eventlog.versions.ConfigStore`."""
        self._run("beat", process, name, *said)
        return [ConfigVersion(*found) for found in self._ask("newer", known)]

    def settle(self, decide: Decide) -> ProposalVerdict | None:
        """See :class:`bot_orch.eventlog.versions.ConfigStore`."""
        with self._alone():
            proposal = self._one("proposal")
            if proposal is None:
                return None
            found = decide(proposal, self.processes())
            if found.status != PROPOSED:
                self._run("decide", found.status, found.problem, proposal.number)
            return found

    def processes(self) -> list[ProcessSeen]:
        """See :class:`bot_orch.eventlog.versions.ConfigStore`."""
        return [
            ProcessSeen(id_, name, ProcessSelf(config, prepared, problem), silent_s)
            for id_, name, config, prepared, problem, silent_s in self._ask("processes")
        ]

    def leave(self, process: int) -> None:
        """See :class:`bot_orch.eventlog.versions.ConfigStore`."""
        try:
            self._run("leave", process)
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with suppress(driver().Error):
                self._connection.close()
            self._connection = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A transaction beside which no other one changes versions or joins."""
        with reaching():
            try:
                with self._open().transaction():
                    self._run("lock")
                    yield
            except driver().OperationalError:
                self.close()
                raise

    def _one(self, query: str) -> ConfigVersion | None:
        return next((ConfigVersion(*found) for found in self._ask(query)), None)

    def _ask(self, query: str, *arguments: Any) -> list[Any]:
        found: list[Any] = self._run(query, *arguments).fetchall()
        return found

    def _run(self, query: str, *arguments: Any) -> Any:
        with reaching():
            try:
                return self._open().execute(_Q[query], arguments)
            except driver().OperationalError:
                self.close()
                raise

    def _open(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url, autocommit=True, ended=self._ended)
        return self._connection
