"""Copy a log into PostgreSQL, row by row in its order, and prove that the copy is the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import islice, zip_longest

from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.log.archive import whole
from bot_orch.log.log import Log, Row
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.log.verification import replay

__all__ = ["CopyCheck", "copy_log", "verify"]

_GROUP = 1000


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


def copy_log(source: SqliteLog, target: PostgresLog, progress: Callable[[int, int], None] | None = None) -> int:
    """Append the rows that ``target`` lacks, with keys and archived rows; returns their number."""
    total, done = source.last()[0], target.last()[0]
    _check_beginning(whole(source), target, done)
    copied = 0
    rows = _with_keys(source, done)
    while group := list(islice(rows, _GROUP)):
        target.append(group)
        target.commit()
        copied += len(group)
        if progress is not None:
            progress(group[-1].seq, total)
    return copied


def verify(source: SqliteLog, target: PostgresLog, *, exact: bool = True) -> CopyCheck:
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


def _with_keys(source: SqliteLog, after: int) -> Iterator[Row]:
    keys = source.keys()
    key = next(keys, None)
    for row in whole(source).read(after):
        while key is not None and key[0] < row.seq:
            key = next(keys, None)
        yield row._replace(key=key[1], digest=key[2]) if key is not None and key[0] == row.seq else row


def _same_keys(source: SqliteLog, target: PostgresLog) -> bool:
    copied = (
        (seq, *target_keys[seq])
        for after in range(0, target.last()[0], _GROUP)
        for target_keys in (target.keys_between(after, after + _GROUP),)
        for seq in sorted(target_keys)
    )
    return all(a == b for a, b in zip_longest(source.keys(), copied))


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
