"""Cut a captured state into pieces, and encode only those that changed since the last time.

Entries of long lists are immutable, come at the end and go anywhere. A list is cut after entries whose key has a
certain checksum, so that a change moves no cut elsewhere. A piece whose entries are the same objects as last time has
the same digest, and is neither encoded nor written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, astuple, dataclass
from operator import is_
from typing import Any
from zlib import crc32

import msgspec

from bot_orch.core.capture import CapturedState
from bot_orch.core.completion.silences import silence_to_dict
from bot_orch.core.rows import arrays_to_rows, decision_to_row
from bot_orch.core.state import agent_to_dict
from bot_orch.log.capture import CapturedLedger, Entries, Slices
from bot_orch.log.log import Log, PieceKeeper, PieceStore, Snapshot
from bot_orch.log.snapshots.manifest import Manifest, digests_of, named, packed

__all__ = ["CutState", "Increments"]

_encode = msgspec.msgpack.Encoder().encode
_SOME, _MANY = 64, 512  # entries of a piece: decisions, and lists with small entries
_LOOKED_AT = 50
ToRow = Callable[[str, Any], Any]


class _Slice:
    """Some entries of a list, as they were when it was cut."""

    __slots__ = ("body", "closed", "digest", "keys", "to_row", "values")

    def __init__(self, keys: list[str], values: list[Any], to_row: ToRow, *, closed: bool) -> None:
        self.keys, self.values, self.to_row, self.closed = keys, values, to_row, closed
        self.digest, self.body = b"", b""

    def encoded(self) -> bytes:
        return _encode([self.to_row(key, value) for key, value in zip(self.keys, self.values, strict=True)])


@dataclass(frozen=True, slots=True)
class _LongList:
    """A list of the state.

    Parameters
    ----------
    name
        What the manifest calls it; lists of the router begin with ``router.``.
    items
        The entries by key.
    to_row
        The plain values of an entry.
    size
        Entries of a piece, on average.
    """

    name: str
    items: dict[str, Any]
    to_row: ToRow
    _: KW_ONLY
    size: int

    def cut(self, known: dict[str, _Slice]) -> Iterator[_Slice]:
        """The pieces, those of ``known`` (by their first key) where they still fit."""
        keys, values, at, n = list(self.items), list(self.items.values()), 0, len(self.items)
        while at < n:
            old = known.get(keys[at])
            if old is not None:
                end = at + len(old.keys)
                same = (old.closed or end == n) and keys[at:end] == old.keys
                if same and all(map(is_, values[at:end], old.values)):
                    yield old
                    at = end
                    continue
            end = min(n, at + 4 * self.size)
            closed = end < n
            for place in range(at, end):
                if crc32(keys[place].encode()) % self.size == 0:
                    end, closed = place + 1, True
                    break
            yield _Slice(keys[at:end], values[at:end], self.to_row, closed=closed)
            at = end


@dataclass(frozen=True, slots=True)
class CutState:
    """A state that was cut; what is left to do needs no interpreter's lock for most of the time.

    Parameters
    ----------
    seq, derived_by
        Number of the last event; the engine.
    head, parts
        Encoded pieces.
    lists
        Pieces of long lists; those without a body are the same as last time.
    anew
        Whether to store all pieces, as those in storage may be damaged.
    """

    seq: int
    derived_by: str
    head: bytes
    _: KW_ONLY
    parts: dict[str, bytes]
    lists: dict[str, list[_Slice]]
    anew: bool = False

    def stored(self, log: Log) -> Snapshot:
        """The snapshot for ``log``, with the pieces that go with it; others are stored by now."""
        store: PieceStore = log.folder or log
        snapshot = self.finished(store.missing, "" if log.folder is None else str(log.folder))
        if not isinstance(store, PieceKeeper):
            return snapshot
        newest = log.snapshot()
        before = None if newest is None else log.snapshot(newest.seq)
        needed = {name for each in (snapshot, newest, before) if each for name in digests_of(each.body)}
        store.keep(snapshot.pieces, needed)
        return snapshot._replace(pieces=())

    def finished(self, missing: Callable[[Collection[bytes]], set[bytes]], folder: str = "") -> Snapshot:
        """The snapshot, with the pieces that are not in storage, also where an old one was lost there."""
        bodies = {named(body): body for body in (self.head, *self.parts.values())}
        slices = {}
        for each in (each for listed in self.lists.values() for each in listed):
            each.digest = each.digest or named(each.body)
            slices[each.digest] = each
        manifest = Manifest(
            derived_by=self.derived_by,
            seq=self.seq,
            head=named(self.head),
            parts={name: named(body) for name, body in self.parts.items()},
            lists={name: b"".join(each.digest for each in listed) for name, listed in self.lists.items()},
            folder=folder,
        )
        every = {*bodies, *slices}
        wanted = every if self.anew else missing(every)
        pieces = [packed(digest, body) for digest, body in bodies.items() if digest in wanted]
        for digest, each in slices.items():
            if digest in wanted:
                pieces.append(packed(digest, each.body or each.encoded()))
            each.body = b""
        return Snapshot(self.seq, manifest.body(), tuple(pieces))


class Increments:
    """Cuts one state after another; remembers what the last one was cut into.

    ``cost_s`` is the processor time that the last snapshot took.
    """

    def __init__(self) -> None:
        self.cost_s, self._begun = 0.0, False
        self._known: dict[str, dict[str, _Slice]] = {}

    def cut(self, captured: CapturedLedger) -> Slices[CutState]:
        """Cut and encode; some pieces at a time."""
        state, lists, looked_at, anew = captured.router.state, dict[str, list[_Slice]](), 0, not self._begun
        parts = {}
        for name, arrays in state.parts.items():
            parts[name] = _encode(arrays_to_rows(arrays))
            yield
        for each in (*_of_router(captured.router), *_of_ledger(captured)):
            found = lists[each.name] = list[_Slice]()
            for piece in each.cut(self._known.get(each.name, {})):
                found.append(piece)
                looked_at += 1
                if not piece.digest:
                    piece.body = piece.encoded()
                if not piece.digest or looked_at % _LOOKED_AT == 0:
                    yield
        self._known = {name: {each.keys[0]: each for each in found} for name, found in lists.items()}
        self._begun = True
        engine = captured.before["derived_by"]
        return CutState(captured.seq, engine, _head(captured), parts=parts, lists=lists, anew=anew)

    def begin_with(self, captured: CapturedLedger, pieces: Mapping[str, Sequence[tuple[bytes, int]]]) -> None:
        """Take a state that was just loaded for the last one that was cut.

        ``pieces`` are digest and number of entries of the pieces of each list.
        """
        self._begun = True
        for each in (*_of_router(captured.router), *_of_ledger(captured)):
            cut, loaded = list(each.cut({})), pieces.get(each.name, ())
            if [len(piece.keys) for piece in cut] == [length for _, length in loaded]:
                for piece, (digest, _) in zip(cut, loaded, strict=True):
                    piece.digest = digest
                self._known[each.name] = {piece.keys[0]: piece for piece in cut}


def _of_router(captured: CapturedState) -> list[_LongList]:
    state = captured.state
    found = [
        _LongList("router.pending", state.pending, lambda _, value: decision_to_row(value), size=_SOME),
        _LongList("router.silences", state.silences, lambda _, value: silence_to_dict(value), size=_SOME),
        _LongList("router.provisional", state.provisional, lambda _, value: silence_to_dict(value), size=_SOME),
        _LongList("router.verdicts", state.verdicts, lambda key, value: [key, *astuple(value)], size=_MANY),
        _LongList("router.shown", state.shown, lambda key, _: key, size=_MANY),
        _LongList("router.used", state.used, lambda key, value: [key, *astuple(value)], size=_MANY),
    ]
    return [each for each in found if each.items]


def _of_ledger(captured: CapturedLedger) -> list[_LongList]:
    entries = ((name, value) for name, value in captured.after.items() if isinstance(value, Entries))
    return [_LongList(name, value.items, value.row, size=_MANY) for name, value in entries if value.items]


def _head(captured: CapturedLedger) -> bytes:
    """Everything that is no long list: settings, agents, counts."""
    state = captured.router.state
    small = {name: value for name, value in captured.after.items() if not isinstance(value, Entries)}
    router = {
        **captured.router.head,
        "state": {
            "agents": [agent_to_dict(agent) for agent in state.agents],
            "rounds": state.rounds,
            "seq": state.seq,
            **state.identity(),
        },
    }
    return _encode({**captured.before, **small, "router": json.dumps(router, allow_nan=False)})
