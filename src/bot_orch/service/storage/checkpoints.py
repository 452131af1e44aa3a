"""A recent copy of the state in memory: what a replica goes back to when its own rows were not written."""

from __future__ import annotations

from collections.abc import Iterable

from bot_orch.eventlog.capture import CapturedLedger
from bot_orch.eventlog.ledger import Ledger
from bot_orch.eventlog.log import Row

__all__ = ["RecentCheckpoint"]

_EVERY = 512


class RecentCheckpoint:
    """A copy of the ledger and the committed rows after it.

    Copies are taken of committed states alone, at intervals that grow with the number of pending decisions.
    """

    def __init__(self) -> None:
        self._captured: CapturedLedger | None = None
        self._since: list[Row] = []
        self._period = 0

    def committed(self, rows: Iterable[Row]) -> None:
        """Note rows that were committed, by whomever."""
        if self._captured is not None:
            self._since.extend(rows)

    def refresh(self, ledger: Ledger) -> None:
        """Take a copy if the last one is old; everything that ``ledger`` holds must be committed."""
        if ledger.configured and (self._captured is None or len(self._since) >= self._period):
            self._captured, self._since = ledger.capture(), []
            self._period = max(_EVERY, len(ledger.pending) // 16)

    def forget(self) -> None:
        """Drop the copy: what it holds is not what the log holds."""
        self._captured, self._since = None, []

    def ledger(self) -> Ledger | None:
        """The last committed state; may run in a thread, while nothing is committed."""
        if self._captured is None:
            return None
        ledger = Ledger.from_capture(self._captured)
        for row in self._since:
            ledger.take(row)
        return ledger
