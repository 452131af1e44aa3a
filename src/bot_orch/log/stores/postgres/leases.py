"""Ownership of a stream: a lease in PostgreSQL that one process of a service holds at a time.

A lease has an epoch, which grows with every change of the owner. The owner appends under its epoch (``fence`` in SQL,
in the same transaction), so one that has lost its lease without noticing it cannot write. A claim waits for the
stream's lock: the previous owner's commits are visible, and its later writes are refused.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from bot_orch.log.stores.postgres.connect import QUERIES, KeptConnection, driver, prepare, reaching, split
from bot_orch.log.stores.sql import queries

_Q = queries("postgres_lease")
_WAITS_PER_LEASE = 6  # a claim that waits must not keep heartbeats waiting


class LivingProcess(NamedTuple):
    """A process with a recent heartbeat."""

    id: int
    name: str
    address: str


class StreamLease(NamedTuple):
    """The lease of a stream; after it expires, its owner may still write until another process claims the stream."""

    owner: int | None
    epoch: int
    valid: bool
    heir: int | None


class LeaseView(NamedTuple):
    """The lease of the stream, the living processes that serve it by number, the time of the server."""

    lease: StreamLease | None
    processes: dict[int, LivingProcess]
    clock_us: int = 0


class Claimed(NamedTuple):
    """A stream that is ours."""

    stream: int
    epoch: int


class LeaseTable(KeptConnection):
    """The lease of one stream, over a separate connection; not thread-safe.

    Parameters
    ----------
    url
        See :class:`bot_orch.log.stores.postgres.log.PostgresLog`; it names the stream.
    lease_s
        How long a lease is valid, and for how long a process is taken for alive after a heartbeat.
    """

    def __init__(self, url: str, lease_s: float) -> None:
        super().__init__(url, _Q)
        self.lease_s, self._stream = lease_s, split(url).stream
        self.id, self.name = 0, ""

    def join(self, name: str, address: str) -> int:
        """Register this process; returns its number, which is never reused."""
        prepare(self._url)
        with reaching():
            self.id, self.name = int(self._run("join", name, address, self._stream).fetchone()[0]), name
            self._run("forget")
        return self.id

    def beat(self, address: str, held: Claimed | None) -> LeaseView:
        """Send a heartbeat and renew the lease if it is ours."""
        with reaching(), self._open().pipeline():
            beaten = self._run("beat", self.id, self.name, address, self._stream)
            if held is not None:
                self._run("renew", self.lease_s, held.stream, held.epoch, self.id)
            living, lease = self._run("living", self._stream, self.lease_s), self._run("lease", self._stream)
            clock_us, found = beaten.fetchone()[0], lease.fetchone()
            return LeaseView(
                None if found is None else StreamLease(*found),
                {each[0]: LivingProcess(*each) for each in living.fetchall()},
                int(clock_us),
            )

    def claim(self) -> Claimed | None:
        """Claim the stream, creating it if missing; ``None`` while another process owns it."""
        with reaching():
            try:
                epoch, stream = self._run("claim", self.id, self.lease_s, self._stream).fetchone()
            except driver().errors.LockNotAvailable:  # its owner hangs in an append
                self._open().execute(QUERIES["cut_off"], (self._stream, self.lease_s))
                return None
            self._run("notify")
        return None if epoch is None else Claimed(int(stream), int(epoch))

    def release(self, epoch: int, heir: int | None = None) -> None:
        """Release the stream; ``heir`` is the process it is left to."""
        with reaching():
            self._run("release", heir, self._stream, self.id, epoch)
            self._run("notify")

    def leave(self) -> None:
        """Unregister this process and close the connection; without one, others wait until its heartbeats expire."""
        if self.descriptor() is not None:
            with suppress(Exception):
                self._run("leave", self.id)
                self._run("notify")
        self.close()

    def descriptor(self) -> int | None:
        """The file descriptor that becomes readable on notifications; ``None`` without a connection."""
        return None if self._connection is None or self._connection.closed else int(self._connection.fileno())

    def news(self) -> bool:
        """Read pending notifications; returns whether leases may have changed."""
        with reaching():
            return bool([*self._open().notifies(timeout=0.0, stop_after=1000)])

    def _begin(self, connection: Any) -> None:
        connection.execute(f"SET lock_timeout = {round(1000 * self.lease_s / _WAITS_PER_LEASE)}")
        connection.execute(f"LISTEN {split(self._url).schema}_leases")
