"""Copy a log: to a new SQLite file, also while it is written, or to PostgreSQL; and compare the copy with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from itertools import islice, takewhile, zip_longest
from pathlib import Path

from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.files import sync
from bot_orch.log.archive import whole
from bot_orch.log.log import Log, Row
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.stores.sqlite.log import SqliteLog, connect, watch
from bot_orch.log.verification import replay

_GROUP = 1000
_SqlLog = SqliteLog | PostgresLog
_Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class CopyCheck:
    """Result of a comparison of two logs."""

    events: int
    derived: int
    different: int
    _: KW_ONLY
    original: str
    copy: str
    same_rows: bool

    @property
    def ok(self) -> bool:
        """Whether rows and states are equal and every derivable decision was reproduced."""
        return self.same_rows and self.different == 0 and self.original == self.copy


def back_up(source: _SqlLog, path: Path, progress: _Progress | None = None) -> int:
    """Write the log as of now to a new file; returns the number of its last event. The log may be in use.

    Another SQLite file is copied by pages, and names the same archive; the archive of a log in PostgreSQL becomes part
    of the file. The file gets its name once it is on disk and its rows were compared with the original's.
    """
    if path.exists():
        raise InvalidInputError("TO", f"{path} exists", "pass the path of a new file")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)  # of a copy that was interrupted
    try:
        last = _written(source, partial, progress)
        sync(partial)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    sync(path.parent)
    return last


def _written(source: _SqlLog, path: Path, progress: _Progress | None) -> int:
    """Write and compare a copy; returns the number of its last event."""
    path.touch(0o600)
    if isinstance(source, SqliteLog):
        _copy_pages(source, path)
    with closing(SqliteLog(path)) as target:
        if not isinstance(source, SqliteLog):
            copy_log(source, target, progress)
        last, original = target.last()[0], source if target.archived() is not None else whole(source)
        if _digest(_between(original, 0, last)) != _digest(target.read()) or not _same_keys(source, target):
            raise StateFormatError(f"log: {path} differs from the original; copy it again")
    return last


def _copy_pages(source: SqliteLog, path: Path) -> None:
    """Copy all pages in one step: in one read transaction, which no writer waits for."""
    with closing(watch(str(source.path))) as original, closing(connect(str(path))) as copy:
        original.backup(copy)


def copy_log(source: _SqlLog, target: _SqlLog, progress: _Progress | None = None) -> int:
    """Append the rows that ``target`` lacks, with keys and archived rows; returns their number."""
    total, done = source.last()[0], target.last()[0]
    _check_beginning(whole(source), target, done)
    copied = 0
    rows = _with_keys(source, done, total)
    while group := list(islice(rows, _GROUP)):
        target.append(group)
        target.commit()
        copied += len(group)
        if progress is not None:
            progress(group[-1].seq, total)
    return copied


def verify(source: _SqlLog, target: PostgresLog, *, exact: bool = True) -> CopyCheck:
    """Fold both from their first event and derive every decision of the copy again that this engine made."""
    every = whole(source)
    found, original = replay(target, exact=exact), replay(every, exact=exact)
    for problem in (*original.damaged, *found.damaged):
        raise StateFormatError(problem)
    same = _digest(every.read()) == _digest(target.read()) and _same_keys(source, target)
    different = len({each.seq for each in (*found.mismatches, *original.mismatches)})
    return CopyCheck(
        found.events, found.derived, different, original=original.fingerprint, copy=found.fingerprint, same_rows=same
    )


def _with_keys(source: _SqlLog, after: int, upto: int) -> Iterator[Row]:
    keys = _keys(source, upto)
    key = next(keys, None)
    for row in _between(whole(source), after, upto):
        while key is not None and key[0] < row.seq:
            key = next(keys, None)
        yield row._replace(key=key[1], digest=key[2]) if key is not None and key[0] == row.seq else row


def _keys(log: _SqlLog, upto: int) -> Iterator[tuple[int, str, bytes]]:
    """(seq, key, digest) of every row with a key, in order."""
    if isinstance(log, SqliteLog):
        yield from takewhile(lambda each: each[0] <= upto, log.keys())
        return
    for after in range(0, upto, _GROUP):
        found = log.keys_between(after, min(after + _GROUP, upto))
        yield from ((seq, *found[seq]) for seq in sorted(found))


def _same_keys(source: _SqlLog, target: _SqlLog) -> bool:
    upto = target.last()[0]
    return all(a == b for a, b in zip_longest(_keys(source, upto), _keys(target, upto)))


def _between(source: Log, after: int, upto: int) -> Iterable[Row]:
    for row in source.read(after):
        if row.seq > upto:
            return
        yield row


def _check_beginning(source: Log, target: Log, done: int) -> None:
    """Check that the target's rows are a prefix of the source."""
    if done > source.last()[0] or _digest(_between(source, 0, done)) != _digest(target.read()):
        raise InvalidInputError("TO", "holds another log", "use an empty database")


def _digest(rows: Iterable[Row]) -> bytes:
    digest = hashlib.blake2b()
    for row in rows:
        digest.update(repr(row[:4]).encode() + len(row.body).to_bytes(8, "big") + row.body)
    return digest.digest()
