"""A segment of an archive: a Parquet file with consecutive events, whose hash continues that of the segment before."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bot_orch.errors import MissingExtraError, StateFormatError
from bot_orch.log.log import Row

__all__ = [
    "NOTHING_BEFORE",
    "Segment",
    "chained",
    "name_of",
    "parquet",
    "read_rows",
    "read_segment",
    "span_of",
    "sync_folder",
    "write_segment",
]

NOTHING_BEFORE = bytes(32)
"""What the first segment continues."""

_FORMAT = "bot-orch-archive@1"
_META = b"bot_orch"
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
    """The hash of rows that continue others.

    Examples
    --------
    >>> rows = [Row(1, 5, "kind", "a", b"x"), Row(2, 6, "kind", "b", b"y", "key", b"digest")]
    >>> whole = chained(NOTHING_BEFORE, rows)
    >>> whole == chained(chained(NOTHING_BEFORE, rows[:1]), rows[1:]), whole == chained(NOTHING_BEFORE, rows[:1])
    (True, False)
    """
    for row in rows:
        before = hashlib.blake2b(msgspec.msgpack.encode(tuple(row)), key=before, digest_size=32).digest()
    return before


def span_of(path: Path) -> tuple[int, int] | None:
    """First and last event of a segment, by its name; ``None`` for other files.

    Examples
    --------
    >>> span_of(Path("events-000000000001-000000004096.parquet")), span_of(Path("notes.txt"))
    ((1, 4096), None)
    """
    found = _NAME.match(path.name)
    return None if found is None else (int(found[1]), int(found[2]))


def name_of(first: int, last: int) -> str:
    """The file of a segment.

    Examples
    --------
    >>> name_of(1, 4096)
    'events-000000000001-000000004096.parquet'
    """
    return f"events-{first:012d}-{last:012d}.parquet"


def write_segment(folder: Path, rows: Sequence[Row], before: bytes) -> Segment:
    """Write rows to a new file, on disk under its name once it has been read back and found the same."""
    library = parquet()
    import pyarrow

    first, last, digest = rows[0].seq, rows[-1].seq, chained(before, rows)
    said = {"format": _FORMAT, "first": first, "last": last, "before": before.hex(), "digest": digest.hex()}
    types = (*(pyarrow.int64(),) * 2, *(pyarrow.string(),) * 2, pyarrow.binary(), pyarrow.string(), pyarrow.binary())
    schema = pyarrow.schema(list(zip(_COLUMNS, types, strict=True)), metadata={_META: msgspec.json.encode(said)})
    columns = [pyarrow.array(list(column), type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True)]
    path = folder / name_of(first, last)
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb", opener=_private) as file:
        library.write_table(pyarrow.table(columns, schema=schema), file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    written = read_segment(temporary)
    if written != (temporary, first, last, before, digest) or read_rows(written) != list(rows):
        raise StateFormatError(f"archive: {temporary} does not hold what was written; check the disk")
    temporary.replace(path)
    sync_folder(folder)
    return Segment(path, first, last, before, digest)


def read_segment(path: Path) -> Segment:
    """What a file says of itself."""
    library = parquet()
    try:
        said = msgspec.json.decode((library.read_schema(path).metadata or {})[_META], type=dict[str, Any])
        if said["format"] != _FORMAT:
            raise StateFormatError(f"archive: {path} has the format {said['format']!r}; upgrade to read it")
        before, digest = bytes.fromhex(said["before"]), bytes.fromhex(said["digest"])
        return Segment(path, int(said["first"]), int(said["last"]), before, digest)
    except StateFormatError:
        raise
    except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise StateFormatError(f"archive: {path} is damaged ({_line(error)}); {_REMEDY}") from error


def read_rows(segment: Segment) -> list[Row]:
    """The rows of a segment with their keys, checked against its hash."""
    library = parquet()
    try:
        table = library.read_table(segment.path, columns=list(_COLUMNS))
        columns = [table.column(name).to_pylist() for name in _COLUMNS]
    except (OSError, ValueError, KeyError) as error:
        raise StateFormatError(f"archive: {segment.path} is damaged ({_line(error)}); {_REMEDY}") from error
    rows = [Row(*each) for each in zip(*columns, strict=True)]
    span = range(segment.first, segment.last + 1)
    if [row.seq for row in rows] != list(span) or chained(segment.before, rows) != segment.digest:
        raise StateFormatError(f"archive: {segment.path} is damaged (its hash is another); {_REMEDY}")
    return rows


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
