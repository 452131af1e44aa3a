"""The list of the pieces that make up a state."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import msgspec

from bot_orch.errors import StateFormatError
from bot_orch.log.log import SnapshotPiece

__all__ = ["Manifest", "digests_of", "manifest_of", "named", "opened", "packed"]

FORMAT = "bot-orch-ledger-pieces@1"
_SIZE = 16


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Digests of the pieces of a state.

    Parameters
    ----------
    derived_by
        The engine whose arrays these are.
    seq
        Number of the last event.
    head
        Everything that is small.
    parts
        The arrays of each learner, in order.
    lists
        Digests of the pieces of each long list, joined.
    folder
        Where the pieces are; empty if they are beside the manifest.
    """

    format: str = FORMAT
    derived_by: str
    seq: int
    head: bytes
    parts: dict[str, bytes]
    lists: dict[str, bytes]
    folder: str = ""

    def digests(self) -> list[bytes]:
        """Digests of all pieces."""
        return [self.head, *self.parts.values(), *(each for joined in self.lists.values() for each in split(joined))]

    def body(self) -> bytes:
        """The manifest as bytes; :func:`manifest_of` reads them."""
        return msgspec.msgpack.encode(self)


def split(joined: bytes) -> list[bytes]:
    """Digests that were joined."""
    return [joined[at : at + _SIZE] for at in range(0, len(joined), _SIZE)]


def manifest_of(body: bytes) -> Manifest | None:
    """The manifest that a snapshot is; None of one that is a state itself."""
    if FORMAT.encode() not in body[:64]:
        return None
    try:
        return msgspec.msgpack.decode(body, type=Manifest)
    except msgspec.DecodeError as error:
        raise StateFormatError(f"snapshot: its list of pieces is damaged ({error}); delete the snapshot") from error


def digests_of(body: bytes) -> list[bytes]:
    """Digests of the pieces that a snapshot needs; none of one that is a state itself, or damaged."""
    try:
        manifest = manifest_of(body)
    except StateFormatError:
        return []
    return [] if manifest is None else manifest.digests()


def named(body: bytes) -> bytes:
    """The name of a piece.

    Examples
    --------
    >>> len(named(b"what it holds"))
    16
    """
    return hashlib.blake2b(body, digest_size=_SIZE).digest()


def packed(digest: bytes, body: bytes) -> SnapshotPiece:
    """A piece as it is stored."""
    return SnapshotPiece(digest, zlib.compress(body, 1))


def opened(digest: bytes, stored: bytes | None) -> Any:
    """What a piece holds; raises if it is missing or is not what its name says."""
    if stored is None:
        raise StateFormatError(f"snapshot: the piece {digest.hex()} is missing; delete the snapshot")
    try:
        body = zlib.decompress(stored)
    except zlib.error as error:
        raise StateFormatError(f"snapshot: the piece {digest.hex()} is damaged ({error}); delete it") from error
    if named(body) != digest:
        raise StateFormatError(f"snapshot: the piece {digest.hex()} holds something else; delete the snapshot")
    return msgspec.msgpack.decode(body)
