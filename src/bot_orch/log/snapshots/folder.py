"""Pieces of snapshots as files in a folder, one per piece, named by their hashes."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from bot_orch.errors import InvalidInputError
from bot_orch.log.log import SnapshotPiece

__all__ = ["PieceFolder"]

_SUFFIX = ".piece"
_YOUNG_S = 60.0  # another process may have written a piece, and not its list yet


class PieceFolder:
    """A folder with the pieces of one log.

    Parameters
    ----------
    path
        The folder; made by the first :meth:`keep`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()

    def __str__(self) -> str:
        return str(self.path)

    def missing(self, digests: Collection[bytes]) -> set[bytes]:
        """See :class:`bot_orch.log.log.PieceStore`."""
        there = self._names()
        return {digest for digest in digests if digest.hex() not in there}

    def pieces(self, digests: Collection[bytes]) -> dict[bytes, bytes]:
        """See :class:`bot_orch.log.log.PieceStore`."""
        found = {}
        for digest in digests:
            with suppress(FileNotFoundError):
                found[digest] = self._file(digest.hex()).read_bytes()
        return found

    def keep(self, pieces: Sequence[SnapshotPiece], kept: Collection[bytes]) -> None:
        """See :class:`bot_orch.log.log.PieceKeeper`."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError("snapshots.folder", f"cannot be made ({error})", "name another folder") from error
        for piece in pieces:
            self._write(piece)
        _sync(self.path, os.O_RDONLY)
        self._collect({*kept, *(piece.digest for piece in pieces)})

    def _collect(self, kept: set[bytes]) -> None:
        limit = time.time() - _YOUNG_S
        for name in self._names().difference(digest.hex() for digest in kept):
            with suppress(FileNotFoundError):
                if self._file(name).stat().st_mtime < limit:
                    self._file(name).unlink()

    def _names(self) -> set[str]:
        with suppress(FileNotFoundError):
            return {file.stem for file in self.path.iterdir() if file.suffix == _SUFFIX}
        return set()

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{_SUFFIX}"

    def _write(self, piece: SnapshotPiece) -> None:
        beside = self.path / f"{piece.digest.hex()}.{os.getpid()}"
        beside.write_bytes(piece.body)
        _sync(beside, os.O_RDWR)
        beside.replace(self._file(piece.digest.hex()))


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
