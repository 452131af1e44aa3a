"""Archives of old events in Parquet files, and a combined view of files and log.

A file holds consecutive events; its hash continues that of the file before, so that files of another log, and gaps, are
noticed. The log keeps an :class:`~bot_orch.log.log.ArchiveRecord`: how far the files go, and the hash of the last.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bot_orch.errors import InvalidInputError, MissingExtraError, StateFormatError
from bot_orch.files import sync
from bot_orch.log.log import ArchiveRecord, Log, Row, Snapshot

NOTHING_BEFORE = bytes(32)
"""What the first file continues."""

_FORMAT = "bot-orch-archive@1"
_META = b"bot_orch"
_REWRITTEN = "rewritten"
_NAME = re.compile(r"events-(\d{12,})-(\d{12,})\.parquet\Z")
_REMEDY = "restore the file from a backup"
_COLUMNS = ("seq", "time_us", "kind", "ref", "body", "key", "digest")


class Segment(NamedTuple):
    """A file with the events ``first`` to ``last``; ``before`` and ``digest`` are the hashes before and after them."""

    path: Path
    first: int
    last: int
    before: bytes
    digest: bytes


def parquet() -> Any:
    """The library; an error names the extra that brings it."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("An archive", "parquet") from error
    return pyarrow.parquet


def chained(before: bytes, rows: Iterable[Row]) -> bytes:
    """The hash chain after appending rows.

    Examples
    --------
    >>> rows = [Row(1, 5, "kind", "a", b"x"), Row(2, 6, "kind", "b", b"y", "key", b"digest")]
    >>> all_of_them = chained(NOTHING_BEFORE, rows)
    >>> all_of_them == chained(chained(NOTHING_BEFORE, rows[:1]), rows[1:])
    True
    """
    for row in rows:
        before = hashlib.blake2b(msgspec.msgpack.encode(tuple(row)), key=before, digest_size=32).digest()
    return before


def write_segment(folder: Path, rows: Sequence[Row], before: bytes) -> Segment:
    """Write rows to a new file; it is renamed after it is on disk and was read back unchanged."""
    library = parquet()
    import pyarrow

    first, last, digest = rows[0].seq, rows[-1].seq, chained(before, rows)
    said = {"format": _FORMAT, "first": first, "last": last, "before": before.hex(), "digest": digest.hex()}
    types = (*(pyarrow.int64(),) * 2, *(pyarrow.string(),) * 2, pyarrow.binary(), pyarrow.string(), pyarrow.binary())
    schema = pyarrow.schema(list(zip(_COLUMNS, types, strict=True)), metadata={_META: msgspec.json.encode(said)})
    columns = [pyarrow.array(list(column), type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True)]
    path = folder / _name(first, last)
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        library.write_table(pyarrow.table(columns, schema=schema), file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    written = read_segment(temporary)
    if written != (temporary, first, last, before, digest) or read_rows(written) != list(rows):
        raise StateFormatError(f"archive: {temporary} does not hold what was written; check the disk")
    temporary.replace(path)
    sync(folder)
    return written._replace(path=path)


def read_segment(path: Path) -> Segment:
    """The metadata of a file."""
    library = parquet()
    try:
        said = msgspec.json.decode((library.read_schema(path).metadata or {})[_META], type=dict[str, Any])
        if said["format"] != _FORMAT:
            raise StateFormatError(f"archive: {path} has the format {said['format']!r}; upgrade to read it")
        before, digest = bytes.fromhex(said["before"]), bytes.fromhex(said["digest"])
        found = Segment(path, int(said["first"]), int(said["last"]), before, digest)
    except StateFormatError:
        raise
    except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise StateFormatError(f"archive: {path} is damaged ({_line(error)}); {_REMEDY}") from error
    if path.suffix == ".parquet" and path.name != _name(found.first, found.last):
        raise StateFormatError(f"archive: {path} holds other events than its name says; rename it back")
    return found


def read_rows(segment: Segment) -> list[Row]:
    """The rows of a file with their keys, checked against its hash."""
    library = parquet()
    try:
        table = library.read_table(segment.path, columns=list(_COLUMNS))
        columns = [table.column(name).to_pylist() for name in _COLUMNS]
    except (OSError, ValueError, KeyError) as error:
        raise StateFormatError(f"archive: {segment.path} is damaged ({_line(error)}); {_REMEDY}") from error
    rows = [Row(*each) for each in zip(*columns, strict=True)]
    if chained(segment.before, rows) != segment.digest:
        raise StateFormatError(f"archive: {segment.path} is damaged (its hash is another); {_REMEDY}")
    return rows


def spans(folder: Path) -> dict[int, Path]:
    """The files of a folder by their first events, in order."""
    if not folder.is_dir():
        return {}
    named = ((_NAME.match(path.name), path) for path in sorted(folder.iterdir()))
    return {int(found[1]): path for found, path in named if found is not None}


def segments(folder: Path, record: ArchiveRecord) -> list[Segment]:
    """The files of a log, in order; raises an error if one is missing or belongs to another log."""
    if not folder.is_dir():
        problem = f"events 1 to {record.seq} are in the archive {folder}, which is not there"
        raise InvalidInputError(
            "archive", problem, "bring the folder back; commands that read a log take --archive FOLDER"
        )
    files, found, before, after = spans(folder), list[Segment](), NOTHING_BEFORE, 0
    while after < record.seq:
        if after + 1 not in files:
            known = min((first for first in files if first > after), default=record.seq + 1)
            problem = f"{folder}: events {after + 1} to {known - 1} are missing"
            raise InvalidInputError("archive", problem, f"bring their files back; they were in {record.folder}")
        each = read_segment(files[after + 1])
        if each.before != before:
            problem = f"{each.path} does not continue the file before it"
            raise InvalidInputError("archive", problem, "bring the files of this log back from a backup")
        found.append(each)
        before, after = each.digest, each.last
    if (after, before) != (record.seq, record.digest):
        problem = f"{folder} holds the archive of another log"
        raise InvalidInputError("archive", problem, f"this log's was in {record.folder}")
    return found


def rewrite_segments(folder: Path, record: ArchiveRecord, changed: Mapping[int, Row]) -> ArchiveRecord:
    """Write the files with changed rows, and all that follow them, to a folder inside; returns the new end.

    The log is to note that end before :func:`replace_segments` puts the files in place.
    """
    target = folder / _REWRITTEN
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(mode=0o700)
    digest = NOTHING_BEFORE
    for segment in segments(folder, record):
        touched = segment.before != digest or any(segment.first <= seq <= segment.last for seq in changed)
        if touched:
            rows = [changed.get(row.seq, row) for row in read_rows(segment)]
            digest = write_segment(target, rows, digest).digest
        else:
            digest = segment.digest
    sync(folder)
    return record._replace(digest=digest)


def replace_segments(folder: Path, record: ArchiveRecord) -> None:
    """Put rewritten files in place if the log has noted their end, and remove them otherwise."""
    target = folder / _REWRITTEN
    if not target.is_dir():
        return
    files = [*spans(target).values()]
    # a run that was killed has moved the first ones: the last one is moved last
    if files and read_segment(files[-1]).digest == record.digest:
        for path in files:
            path.replace(folder / path.name)
        sync(folder)
    shutil.rmtree(target)


class WholeLog(Log):
    """A log to be read together with its archive.

    Parameters
    ----------
    log
        The log with what is left in it.
    record
        What it knows of its archive.
    folder
        Where the files are now, if not where they were.
    """

    def __init__(self, log: Log, record: ArchiveRecord, folder: str | Path | None = None) -> None:
        self.log, self._seq = log, record.seq
        self._segments = segments(Path(folder or record.folder), record)
        self._last_read: tuple[Segment, list[Row]] | None = None

    def read(self, after: int = 0) -> Iterator[Row]:
        """See :class:`bot_orch.log.log.Log`."""
        for segment in self._segments:
            if segment.last > after:
                yield from (row for row in self._rows(segment) if row.seq > after)
        yield from self.log.read(max(after, self._seq))

    def about(self, ref: str) -> list[Row]:
        """See :class:`bot_orch.log.log.Log`; reads every file, which is slow."""
        found = [row for segment in self._segments for row in self._rows(segment) if row.ref == ref]
        return found + [row for row in self.log.about(ref) if row.seq > self._seq]

    def row(self, seq: int) -> Row | None:
        """See :class:`bot_orch.log.log.Log`."""
        if seq > self._seq or seq < 1:
            return self.log.row(seq)
        segment = next(each for each in self._segments if each.last >= seq)
        return self._rows(segment)[seq - segment.first]

    def find(self, key: str) -> tuple[int, bytes] | None:
        """See :class:`bot_orch.log.log.Log`."""
        return self.log.find(key)

    def last(self) -> tuple[int, int]:
        """See :class:`bot_orch.log.log.Log`."""
        return self.log.last()

    def snapshot(self) -> Snapshot | None:
        """See :class:`bot_orch.log.log.Log`."""
        return self.log.snapshot()

    def close(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        self.log.close()

    def _rows(self, segment: Segment) -> list[Row]:
        """Rows as read from a log, without keys, which are looked up separately."""
        if self._last_read is None or self._last_read[0] != segment:
            self._last_read = segment, [row._replace(key=None, digest=None) for row in read_rows(segment)]
        return self._last_read[1]


def whole(log: Log, folder: str | Path | None = None) -> Log:
    """The log including its archive, if it has one; ``folder`` overrides the location of the files."""
    record = log.archived()
    return log if record is None else WholeLog(log, record, folder)


def first_since(log: Log, time_us: int) -> int:
    """Number of the first row at or after a time; one after the last if there is none.

    Examples
    --------
    >>> from bot_orch.log.stores.memory import MemoryLog
    >>> log = MemoryLog()
    >>> log.append([Row(1, 10, "k", "", b""), Row(2, 20, "k", "", b""), Row(3, 30, "k", "", b"")])
    >>> log.commit()
    >>> first_since(log, 0), first_since(log, 20), first_since(log, 21), first_since(log, 31)
    (1, 2, 3, 4)
    """
    record = log.archived()
    low, high = 1 if record is None else record.seq + 1, log.last()[0] + 1
    while low < high:
        middle = (low + high) // 2
        row = log.row(middle)
        if row is not None and row.time_us < time_us:
            low = middle + 1
        else:
            high = middle
    return low


def _name(first: int, last: int) -> str:
    return f"events-{first:012d}-{last:012d}.parquet"


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
