"""The folder of an archive: its segments in order, without gaps, from the first event of the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.log.archive.record import ArchiveRecord
from bot_orch.log.archive.segments import NOTHING_BEFORE, Segment, name_of, read_rows, read_segment, span_of
from bot_orch.log.log import Row

__all__ = ["ArchiveFolder"]


class ArchiveFolder:
    """Segments of one log.

    Parameters
    ----------
    path
        The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def spans(self) -> dict[int, int]:
        """First and last events of the files in it, in order."""
        if not self.path.is_dir():
            return {}
        return dict(sorted(span for file in self.path.iterdir() if (span := span_of(file)) is not None))

    def segment(self, first: int, last: int) -> Segment:
        """One segment, as it describes itself."""
        found = read_segment(self.path / name_of(first, last))
        if (found.first, found.last) != (first, last):
            raise StateFormatError(f"archive: {found.path} holds other events than its name says; rename it back")
        return found

    def check(self, record: ArchiveRecord) -> list[Segment]:
        """All segments of a log, in order; an error names what is missing, or what is not this log's."""
        if not self.path.is_dir():
            problem = f"events 1 to {record.seq} are in the archive {self.path}, which is not there"
            raise InvalidInputError(
                "archive", problem, "bring the folder back; commands that read a log take --archive FOLDER"
            )
        spans, found, before, after = self.spans(), list[Segment](), NOTHING_BEFORE, 0
        while after < record.seq:
            last = spans.get(after + 1)
            if last is None:
                known = min((first for first in spans if first > after), default=record.seq + 1)
                problem = f"events {after + 1} to {known - 1} are missing: there is no {name_of(after + 1, known - 1)}"
                elsewhere = "" if record.folder == str(self.path.absolute()) else f", or from {record.folder}"
                remedy = f"bring the file back from a backup{elsewhere}"
                raise InvalidInputError("archive", f"{self.path}: {problem}", remedy)
            each = self.segment(after + 1, last)
            if each.before != before:
                problem = f"{each.path} does not continue the segment before it"
                raise InvalidInputError("archive", problem, "bring the files of this log back from a backup")
            found.append(each)
            before, after = each.digest, last
        if (after, before) != (record.seq, record.digest):
            problem = f"{self.path} holds the archive of another log"
            raise InvalidInputError("archive", problem, f"this log's was in {record.folder}")
        return found

    def rows(self, record: ArchiveRecord, after: int = 0) -> Iterator[Row]:
        """Archived rows of a log with ``seq > after``, with their keys; every file is checked as it is read."""
        for segment in self.check(record):
            if segment.last > after:
                yield from (row for row in read_rows(segment) if row.seq > after)
