"""A copy of a ledger, taken at once and encoded in slices, so that a service can go on between them."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Generator, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any, TypeVar

import msgspec

from bot_orch.core.capture import CapturedState
from bot_orch.errors import StateFormatError

__all__ = ["CapturedLedger", "Done", "Entries", "Slices", "compressed", "decompressed", "digest", "run_slices"]

Done = TypeVar("Done")
Slices = Generator[None, None, Done]
"""Encodes something; every ``next`` does about a millisecond's work, and the return value is the result."""

_AT_ONCE = 1000
_COMPRESSED = "bot-orch-ledger-zlib@1"
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class CapturedLedger:
    """A ledger as of one moment.

    Parameters
    ----------
    before, after
        Entries of the document before and after the orchestrator's.
    router
        The orchestrator.
    seq
        Number of the last event.
    """

    before: dict[str, Any]
    router: CapturedState
    after: dict[str, Any]
    _: KW_ONLY
    seq: int

    def slices(self) -> Slices[bytes]:
        """Encode what :meth:`bot_orch.log.ledger.Ledger.to_bytes` returns."""
        pieces: list[bytes] = []
        for piece in self.router.pieces():
            pieces.append(piece.encode())
            yield
        found = [_map_header(len(self.before) + 1 + len(self.after))]
        found += [_encode(name) + _encode(value) for name, value in self.before.items()]
        found += [_encode("router"), _text_header(sum(map(len, pieces))), *pieces]
        for name, value in self.after.items():
            found.append(_encode(name))
            if isinstance(value, Entries):
                found.append((_map_header if value.mapped else _list_header)(len(value.items)))
                for part in value.encoded():
                    found.append(part)
                    yield
            else:
                found.append(_encode(value))
        return b"".join(found)


@dataclass(frozen=True, slots=True)
class Entries:
    """A long list of ``[key, value]`` or ``[key, *value]``, or a map in the order of keys, encoded bit by bit."""

    items: dict[str, Any]
    flat: bool = False
    mapped: bool = False

    def encoded(self) -> Iterator[bytes]:
        """The entries without the header of the list."""
        left = iter(sorted(self.items.items()) if self.mapped else self.items.items())
        while batch := list(islice(left, _AT_ONCE)):
            yield b"".join(
                _encode(key) + _encode(value) if self.mapped else _encode(self.row(key, value)) for key, value in batch
            )

    def plain(self) -> Any:
        """What the encoded entries are decoded to."""
        return dict(self.items) if self.mapped else [self.row(key, value) for key, value in self.items.items()]

    def row(self, key: str, value: Any) -> list[Any]:
        """One entry as plain values."""
        return [key, *value] if self.flat else [key, value]


def run_slices(slices: Slices[Done]) -> Done:
    """Do all the work at once."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: Done = done.value
            return result


def digest(body: bytes) -> str:
    """A hash of an encoded ledger."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def compressed(body: bytes) -> bytes:
    """A smaller document, for a snapshot: earlier releases see that the format is not theirs and fold the log."""
    return msgspec.msgpack.encode({"format": _COMPRESSED, "body": zlib.compress(body, 1)})


def decompressed(document: dict[str, Any]) -> dict[str, Any]:
    """The document itself, or the one that :func:`compressed` was given."""
    if document.get("format") != _COMPRESSED:
        return document
    try:
        found: dict[str, Any] = msgspec.msgpack.decode(zlib.decompress(document["body"]))
    except (KeyError, zlib.error, msgspec.DecodeError) as error:
        raise StateFormatError(f"snapshot: is damaged ({error}); delete the snapshot") from error
    return found


def _map_header(n: int) -> bytes:
    if n < 16:
        return bytes([0x80 | n])
    return b"\xde" + n.to_bytes(2, "big") if n < 1 << 16 else b"\xdf" + n.to_bytes(4, "big")


def _list_header(n: int) -> bytes:
    if n < 16:
        return bytes([0x90 | n])
    return b"\xdc" + n.to_bytes(2, "big") if n < 1 << 16 else b"\xdd" + n.to_bytes(4, "big")


def _text_header(n: int) -> bytes:
    if n < 32:
        return bytes([0xA0 | n])
    size, code = next((size, code) for size, code in ((1, 0xD9), (2, 0xDA), (4, 0xDB)) if n < 1 << 8 * size)
    return bytes([code]) + n.to_bytes(size, "big")
