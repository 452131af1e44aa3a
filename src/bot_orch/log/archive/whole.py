"""An archive and the rest of its log, read as one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from bot_orch.errors import InvalidInputError
from bot_orch.log.archive.folder import ArchiveFolder
from bot_orch.log.archive.record import ArchiveRecord, archived
from bot_orch.log.archive.segments import Segment, parquet, read_rows
from bot_orch.log.log import Log, PieceKeeper, Row, Snapshot

__all__ = ["WholeLog", "whole"]


class WholeLog:
    """Every row of a log from its first, to look at; those that were archived come from the archive.

    Parameters
    ----------
    log
        The log with what is left in it.
    record
        What it knows of its archive.
    folder
        Where the archive is now, if not where it was.
    """

    def __init__(self, log: Log, record: ArchiveRecord, folder: str | Path | None = None) -> None:
        self.log, self._record = log, record
        self._archive = ArchiveFolder(folder or record.folder)
        self._segments = self._archive.check(record)
        self._kept: tuple[Segment, list[Row]] | None = None
        self.folder: PieceKeeper | None = log.folder

    @property
    def instant(self) -> bool:
        """See :class:`bot_orch.log.log.Log`."""
        return self.log.instant

    def append(self, rows: Sequence[Row], snapshot: Snapshot | None = None) -> None:
        """Refused."""
        _refuse()

    def commit(self) -> None:
        """Refused."""
        _refuse()

    def rollback(self) -> None:
        """Refused."""
        _refuse()

    def probe(self) -> None:
        """Refused."""
        _refuse()

    def read(self, after: int = 0) -> Iterator[Row]:
        """See :class:`bot_orch.log.log.Log`."""
        for segment in self._segments:
            if segment.last > after:
                yield from (_plain(row) for row in self._rows(segment) if row.seq > after)
        yield from self.log.read(max(after, self._record.seq))

    def about(self, ref: str) -> list[Row]:
        """See :class:`bot_orch.log.log.Log`; looks into every file, which takes its time."""
        found: list[Row] = []
        for segment in self._segments:
            hits = parquet().read_table(segment.path, columns=["seq"], filters=[("ref", "==", ref)])
            wanted = set(hits.column("seq").to_pylist())
            found += [_plain(row) for row in self._rows(segment) if row.seq in wanted] if wanted else []
        return found + [row for row in self.log.about(ref) if row.seq > self._record.seq]

    def row(self, seq: int) -> Row | None:
        """See :class:`bot_orch.log.log.Log`."""
        if seq > self._record.seq or seq < 1:
            return self.log.row(seq)
        segment = next(each for each in self._segments if each.last >= seq)
        return _plain(self._rows(segment)[seq - segment.first])

    def find(self, key: str) -> tuple[int, bytes] | None:
        """See :class:`bot_orch.log.log.Log`."""
        return self.log.find(key)

    def last(self) -> tuple[int, int]:
        """See :class:`bot_orch.log.log.Log`."""
        return self.log.last()

    def snapshot(self, before: int | None = None) -> Snapshot | None:
        """See :class:`bot_orch.log.log.Log`."""
        return self.log.snapshot(before)

    def missing(self, digests: Collection[bytes]) -> set[bytes]:
        """See :class:`bot_orch.log.log.PieceStore`."""
        return self.log.missing(digests)

    def pieces(self, digests: Collection[bytes]) -> dict[bytes, bytes]:
        """See :class:`bot_orch.log.log.PieceStore`."""
        return self.log.pieces(digests)

    def close(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        self.log.close()

    def _rows(self, segment: Segment) -> list[Row]:
        if self._kept is None or self._kept[0] != segment:
            self._kept = segment, read_rows(segment)
        return self._kept[1]


def whole(log: Log, folder: str | Path | None = None) -> Log:
    """The log with what is in its archive, if it has one; ``folder`` says where that is, if not where it was."""
    record = archived(log)
    return log if record is None else WholeLog(log, record, folder)


def _plain(row: Row) -> Row:
    """The row as a log reads it: keys are looked up by themselves."""
    return row._replace(key=None, digest=None)


def _refuse() -> NoReturn:
    raise InvalidInputError("log", "is read with its archive", "open the log alone to write to it")
