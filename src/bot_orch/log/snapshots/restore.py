"""Put a state together from its pieces."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from bot_orch.core.capture import CapturedState
from bot_orch.core.rows import arrays_from_rows, decision_reader
from bot_orch.core.state import State, parse
from bot_orch.errors import StateFormatError
from bot_orch.log.log import PieceStore
from bot_orch.log.snapshots.manifest import Manifest, opened, split

__all__ = ["Restored", "restored"]

_AT_ONCE = 200
_ROUTER = "router."


class Restored(NamedTuple):
    """The document of a ledger, as :meth:`bot_orch.log.ledger.Ledger.to_bytes` has it, and its orchestrator.

    ``pieces`` are digest and number of entries of the pieces of each long list.
    """

    document: dict[str, Any]
    router: CapturedState
    pieces: dict[str, list[tuple[bytes, int]]]


def restored(manifest: Manifest, store: PieceStore) -> Restored:
    """Fetch and read all pieces; raises ``StateFormatError`` if one is missing or damaged."""
    try:
        with _no_collection():
            return _restored(manifest, store)
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.DecodeError) as error:
        if isinstance(error, StateFormatError):
            raise
        raise StateFormatError(f"snapshot: its pieces do not fit ({error}); delete the snapshot") from error


def _restored(manifest: Manifest, store: PieceStore) -> Restored:
    (document,) = _read([manifest.head], store)
    parts = dict(zip(manifest.parts, map(arrays_from_rows, _read([*manifest.parts.values()], store)), strict=True))
    lists: dict[str, Any] = {"pending": (), "silences": ()}
    entries: dict[str, Any] = {"pending": [], "sessions": [], "tasks": []}
    pieces: dict[str, list[tuple[bytes, int]]] = {}
    for name, joined in manifest.lists.items():
        read = decision_reader() if name == f"{_ROUTER}pending" else None
        found, digests, lengths = list[Any](), split(joined), list[int]()
        for rows in _read(digests, store):
            found += rows if read is None else map(read, rows)
            lengths.append(len(rows))
        pieces[name] = list(zip(digests, lengths, strict=True))
        (lists if name.startswith(_ROUTER) else entries)[name.removeprefix(_ROUTER)] = found
    head = parse(document.pop("router"))
    pending, lists["pending"] = lists["pending"], ()
    state = State.from_dict({**head.pop("state"), "parts": {}, **lists})
    state.parts, state.pending = parts, {decision.id: decision for decision in pending}
    return Restored({**document, **entries}, CapturedState(head, state), pieces)


def _read(digests: list[bytes], store: PieceStore) -> Iterator[Any]:
    for at in range(0, len(digests), _AT_ONCE):
        some = digests[at : at + _AT_ONCE]
        stored = store.pieces(some)
        for digest in some:
            yield opened(digest, stored.get(digest))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Many objects that stay make the collector of cycles run over and over."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
