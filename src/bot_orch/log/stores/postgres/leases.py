"""Ownership of streams: leases in PostgreSQL that assign routers to the processes of a service.

A lease has an epoch, which grows with every change of the owner. The owner appends under its epoch (``fence`` in SQL,
in the same transaction), so one that has lost its lease without noticing it cannot write. A claim waits for the
stream's lock: the previous owner's commits are visible, and its later writes are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from bot_orch.log.stores.postgres.connect import QUERIES, KeptConnection, driver, prepare, reaching, split
from bot_orch.log.stores.sql import queries

_Q = queries("postgres_lease")
_USAGE = "_usage"
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
    load: float
    heir: int | None


class LeaseView(NamedTuple):
    """All leases by stream, all living processes by number, the time of the server, the newest configuration."""

    leases: dict[str, StreamLease]
    processes: dict[int, LivingProcess]
    clock_us: int = 0
    config: int = 0


class Claimed(NamedTuple):
    """A stream that is ours."""

    stream: int
    epoch: int


class LeaseNews(NamedTuple):
    """Notifications: whether leases have changed, and messages of processes, including our own."""

    leases: bool
    messages: list[str]


class LeaseTable(KeptConnection):
    """The leases of one schema, over a separate connection; not thread-safe.

    Parameters
    ----------
    url
        See :class:`bot_orch.log.stores.postgres.log.PostgresLog`.
    lease_s
        How long a lease is valid, and for how long a process is taken for alive after a heartbeat.
    """

    def __init__(self, url: str, lease_s: float) -> None:
        super().__init__(url, _Q)
        self.lease_s = lease_s
        self.id, self.name = 0, ""

    def join(self, name: str, address: str) -> int:
        """Register this process; returns its number, which is never reused."""
        prepare(self._url)
        with reaching():
            self.id, self.name = int(self._run("join", name, address).fetchone()[0]), name
            self._run("forget")
        return self.id

    def beat(
        self, address: str, held: Mapping[int, tuple[int, float]], *, config: int = 0, problem: str = ""
    ) -> LeaseView:
        """Send a heartbeat and renew the leases: (epoch, load) by number of stream.

        ``config`` is the version of the configuration that it runs, ``problem`` why it cannot run the newest one.
        """
        with reaching(), self._open().pipeline():
            beaten = self._run("beat", self.id, self.name, address, config, problem)
            if held:
                epochs, loads = zip(*held.values(), strict=True)
                self._run("renew", self.lease_s, list(held), list(epochs), list(loads), self.id)
            living, leases = self._run("living", self.lease_s), self._run("leases")
            clock_us, newest = beaten.fetchone()
            return LeaseView(
                {name: StreamLease(*rest) for name, *rest in leases.fetchall()},
                {found[0]: LivingProcess(*found) for found in living.fetchall()},
                int(clock_us),
                int(newest),
            )

    def claim(self, name: str) -> Claimed | None:
        """Claim a stream, creating it if missing; ``None`` while another process owns it."""
        with reaching():
            try:
                epoch, stream = self._run("claim", self.id, self.lease_s, name).fetchone()
            except driver().errors.LockNotAvailable:  # its owner hangs in an append
                self._open().execute(QUERIES["cut_off"], (name, self.lease_s))
                return None
            self._run("notify")
        return None if epoch is None else Claimed(int(stream), int(epoch))

    def release(self, name: str, epoch: int, heir: int | None = None) -> None:
        """Release a stream; ``heir`` is the process it is left to."""
        with reaching():
            self._run("release", heir, name, self.id, epoch)
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

    def notify(self, messages: Sequence[str]) -> None:
        """Send messages of less than 8000 bytes to all processes of this schema."""
        with reaching(), self._open().pipeline():
            for each in messages:
                self._run("tell", each)

    def news(self) -> LeaseNews:
        """Read pending notifications."""
        with reaching():
            found = [*self._open().notifies(timeout=0.0, stop_after=1000)]
        messages = [each.payload for each in found if each.channel.endswith(_USAGE)]
        return LeaseNews(len(messages) < len(found), messages)

    def _begin(self, connection: Any) -> None:
        connection.execute(f"SET lock_timeout = {round(1000 * self.lease_s / _WAITS_PER_LEASE)}")
        schema = split(self._url).schema
        connection.execute(f"LISTEN {schema}_leases; LISTEN {schema}{_USAGE}")
