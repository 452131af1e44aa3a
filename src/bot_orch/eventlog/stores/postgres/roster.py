"""The roster of replicas: heartbeats, decisions in progress, and state hashes per event."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

from bot_orch.core.engine import ENGINE
from bot_orch.eventlog.stores.postgres.connect import QUERIES, connect, driver

__all__ = ["Peer", "ReplicaCondition", "ReplicaRoster", "StateMismatch"]

_Q = QUERIES
_KEPT_CHECKS = 8192


class ReplicaCondition(NamedTuple):
    """What a replica says of itself: how long the server takes to answer it, and the seconds that circuits stay open.

    Examples
    --------
    >>> ReplicaCondition.parse(ReplicaCondition(0.25, {"small": 12.0}).text())
    ReplicaCondition(rtt_s=0.25, circuits={'small': 12.0})
    >>> ReplicaCondition.parse("from another release")
    ReplicaCondition(rtt_s=0.0, circuits={})
    """

    rtt_s: float = 0.0
    circuits: Mapping[str, float] = MappingProxyType({})

    def text(self) -> str:
        """As it is written beside the heartbeat."""
        return json.dumps({"rtt_s": round(self.rtt_s, 6), "circuits": dict(self.circuits)})

    @classmethod
    def parse(cls, text: str) -> ReplicaCondition:
        """What another replica wrote; nothing is known of one that writes something else."""
        try:
            found = json.loads(text)
            return cls(float(found["rtt_s"]), {str(name): float(left) for name, left in found["circuits"].items()})
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls(0.0, {})


_UNKNOWN = ReplicaCondition()


class Peer(NamedTuple):
    """A live replica. ``busy`` are decisions whose agents have not answered yet."""

    id: int
    name: str
    seq: int
    busy: tuple[str, ...]
    condition: ReplicaCondition = _UNKNOWN


class StateMismatch(NamedTuple):
    """Two replicas that hold different states after the same event."""

    seq: int
    other: int
    ours: str
    theirs: str


class ReplicaRoster:
    """The list of replicas, over a connection of its own; for one thread at a time.

    Parameters
    ----------
    url
        As that of :class:`bot_orch.eventlog.stores.postgres.log.PostgresLog`.
    stream
        The number of the log's stream.
    """

    def __init__(self, url: str, stream: int) -> None:
        self._url, self._stream = url, stream
        self._connection: Any = None
        self._ended = threading.Event()
        self.id, self._name = 0, ""

    def join(self, name: str, seq: int = 0) -> int:
        """Register this replica; returns its number, which is never reused."""
        self.id, self._name = int(self._ask("join", self._stream, name, seq)[0][0]), name
        self._do("forget_replicas")
        return self.id

    def beat(
        self, seq: int, busy: Iterable[str], lease_s: float, *, condition: ReplicaCondition = _UNKNOWN
    ) -> list[Peer]:
        """Send a heartbeat, registering again if forgotten; returns all replicas with one within ``lease_s``."""
        self._do("beat", self._stream, self.id, self._name, seq, list(busy), condition.text())
        return [
            Peer(i, name, at, tuple(busy), ReplicaCondition.parse(said))
            for i, name, at, busy, said in self._ask("peers", self._stream, lease_s)
        ]

    def abort(self) -> None:
        """Let a query that waits for an answer fail, and all later ones; may be called from any thread."""
        self._ended.set()

    def publish(self, hashes: Collection[tuple[int, str]], lease_s: float) -> StateMismatch | None:
        """Publish state hashes; returns a mismatch with a live replica, if there is one.

        Only states of the same engine are compared: another one may have learned otherwise from the same events.
        """
        for seq, hash_ in hashes:
            self._do("publish", self._stream, seq, self.id, f"{ENGINE}:{hash_}")
            self._do("forget_checks", self._stream, seq - _KEPT_CHECKS)
        return next((StateMismatch(*found) for found in self._ask("mismatches", self.id, lease_s)), None)

    def agreed(self) -> int:
        """The number of state hashes that another replica confirmed."""
        return int(self._ask("agreed", self.id)[0][0])

    def drop_snapshots(self) -> None:
        """Drop all snapshots, as any may be wrong; the next start folds from the first event."""
        self._do("drop_snapshots", self._stream)

    def leave(self) -> None:
        """Remove this replica from the roster and close the connection."""
        with suppress(Exception):
            self._do("leave", self.id)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, query: str, *arguments: Any) -> list[Any]:
        found: list[Any] = self._run(query, arguments).fetchall()
        return found

    def _do(self, query: str, *arguments: Any) -> None:
        self._run(query, arguments)

    def _run(self, query: str, arguments: tuple[Any, ...]) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url, autocommit=True, ended=self._ended)
        try:
            return self._connection.execute(_Q[query], arguments)
        except driver().OperationalError:
            self._connection.close()
            raise
