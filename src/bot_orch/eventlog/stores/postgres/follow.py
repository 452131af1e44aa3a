"""Follow a shared log: NOTIFY plus polling, in case a notification is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from bot_orch.eventlog.stores.postgres.connect import LogUnavailableError, connect, driver

__all__ = ["Follower"]

_REACTION_S = 0.2


class Follower(threading.Thread):
    """Calls ``wake`` whenever another writer has committed, and every ``poll_s`` in any case.

    It only says that there may be something to read; what there is, and in which order, the log itself tells.

    Parameters
    ----------
    url, channel
        As those of :class:`bot_orch.eventlog.stores.postgres.log.PostgresLog`.
    wake
        Called in this thread.
    writer
        Announcements of this writer are its own and pass unheard.
    poll_s
        Longest time without a call; also how soon a lost connection is tried again.
    """

    def __init__(
        self, url: str, channel: str, wake: Callable[[], None], *, writer: int = -1, poll_s: float = 0.5
    ) -> None:
        super().__init__(name="follower", daemon=True)
        self._url, self._channel, self._wake, self._writer, self._poll_s = url, channel, wake, writer, poll_s
        self._ending = threading.Event()
        self.listening = threading.Event()

    def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self._ending.set()
        self.join(2)

    def run(self) -> None:
        """Listen until stopped, over one connection after another."""
        psycopg = driver()
        while not self._ending.is_set():
            with suppress(psycopg.Error, LogUnavailableError):
                self._listen()
            self.listening.clear()
            self._wake()
            self._ending.wait(self._poll_s)

    def _listen(self) -> None:
        with connect(self._url, autocommit=True, read_only=True, ended=self._ending) as connection:
            connection.execute(f"LISTEN {self._channel}")
            self.listening.set()
            self._wake()  # what was committed before we listened
            quiet_s = 0.0
            while not self._ending.is_set():
                nap_s = min(_REACTION_S, self._poll_s)
                heard = list(connection.notifies(timeout=nap_s, stop_after=1))
                quiet_s = 0.0 if heard else quiet_s + nap_s
                if any(self._foreign(each.payload) for each in heard) or quiet_s >= self._poll_s:
                    quiet_s = 0.0
                    self._wake()

    def _foreign(self, payload: str) -> bool:
        return payload.partition(":")[0] != str(self._writer)
