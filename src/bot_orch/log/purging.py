"""Remove stored texts from an unused log, archiving them if wanted."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.log.archiving import removing
from bot_orch.log.ledger import Ledger, fold
from bot_orch.log.stores.open import check_database, is_url, open_file, open_url
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.stores.postgres.rewrite import check_unused, rewrite
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.log.texts import StoredText, stored_texts

__all__ = ["Purged", "purge", "seconds_of"]

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


@dataclass(frozen=True, slots=True)
class Purged:
    """Number of rows purged, number of characters removed, and the archive."""

    rows: int
    characters: int
    archive: Path | None = None


def seconds_of(text: str, name: str) -> float:
    """Seconds of an age such as ``30d``, ``12h`` or ``2w``.

    Examples
    --------
    >>> seconds_of("30d", "--older-than"), seconds_of("0s", "--older-than")
    (2592000.0, 0.0)
    """
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    if found is None:
        raise InvalidInputError(name, f"{text[:40]!r} is no age", "write a number and s, m, h, d or w, such as 30d")
    return float(int(found[1]) * _UNITS_S[found[2]])


def purge(
    path: str | Path, *, before_us: int | None = None, task: str | None = None, archive: Path | None = None
) -> Purged:
    """Empty the texts of a log, see :func:`~bot_orch.log.texts.stored_texts`; refused while a service uses it.

    Numbers, order and keys of rows stay, and so do all decisions and outcomes: replay and evaluation give the same. The
    bytes are overwritten, also in the snapshot and the free pages of the file; in PostgreSQL the tables are rewritten,
    and old write-ahead logs go as the server recycles them. Events that were moved to an archive keep their texts.
    """
    log = _opened(path)
    try:
        found = list(stored_texts(log, before_us=before_us, task=task))
        ledger = fold(log)
        emptied = _empty_base(log, ledger, before_us, task)
        if not found and not emptied:
            return Purged(0, 0)
        kept = None if archive is None or not found else _archived(archive, found)
        bodies = [(each.row.seq, each.emptied) for each in found]
        if isinstance(log, PostgresLog):
            rewrite(log, bodies)
        else:
            log.rewrite(bodies)
    finally:
        log.close()
    return Purged(len(found), sum(len(json.dumps(each.texts)) for each in found), kept)


def _empty_base(log: SqliteLog | PostgresLog, ledger: Ledger, before_us: int | None, task: str | None) -> bool:
    """Empty the texts of ended rounds in the state that the archive ends with; whether there were any."""
    record, base = log.archived(), log.base()
    if record is None or base is None or (before_us is not None and record.time_us >= before_us):
        return False
    try:
        state = Ledger.load(base)
    except StateFormatError:
        return False  # another release wrote it: it is never read again
    empty = {
        key: replace(event, input="")
        for key, event in state.tasks.items()
        if key not in ledger.tasks and event.input and (task is None or task in (key, event.task.id))
    }
    if empty:
        state.tasks |= empty
        with removing(log) as target:
            target.note_archive(record, state.snapshot().body)
    return bool(empty)


def _opened(path: str | Path) -> SqliteLog | PostgresLog:
    """The log, locked against other writers."""
    check_database(path)
    if not is_url(path):
        open_file(path).close()  # fails if the file does not exist, which writing=True would create
        return open_file(path, writing=True)
    log = open_url(str(path))
    try:
        check_unused(log)
    except BaseException:
        log.close()
        raise
    return log


def _archived(folder: Path, found: list[StoredText]) -> Path:
    """Write the texts to a new file, on disk before anything is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    path = folder / f"texts-{found[0].row.seq}-{found[-1].row.seq}-{now}.jsonl"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        for each in found:
            row = each.row
            file.write(
                json.dumps({"seq": row.seq, "time_us": row.time_us, "kind": row.kind, "ref": row.ref, **each.texts})
                + "\n"
            )
        file.flush()
        os.fsync(file.fileno())
    return path
