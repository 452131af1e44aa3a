"""Checks that the folder of a log is writable, the time of a disk sync, and the free space."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from bot_orch.service.doctor.findings import CheckFinding, failed, ok, warning

__all__ = ["check_folder"]

_LITTLE_BYTES, _LEAST_BYTES = 1_000_000_000, 100_000_000
_SLOW_S = 0.1
_WRITES = 5


def check_folder(folder: Path) -> CheckFinding:
    """Write and sync a few pages next to the log; a missing folder is created at the first start."""
    place = folder
    try:
        place = next(each for each in (folder, *folder.parents) if each.exists())
        free = shutil.disk_usage(place).free
        sync_s = statistics.median(_sync_s(place) for _ in range(_WRITES))
    except OSError as error:
        problem = f"{place} cannot be written ({error.strerror or error})"
        return failed("disk", problem, "free some space, or let the database be in a folder of this user")
    detail = f"{place}: {free / 1e9:.1f} GB free, a write is on disk after {1000 * sync_s:.1f} ms"
    if free < _LEAST_BYTES:
        return failed("disk", detail, "free at least 1 GB: the log is only appended to")
    if free < _LITTLE_BYTES:
        return warning("disk", detail, "free at least 1 GB: the log is only appended to")
    if sync_s > _SLOW_S:
        return warning("disk", detail, "every acknowledged request waits for it: use a local disk")
    return ok("disk", detail)


def _sync_s(folder: Path) -> float:
    with tempfile.NamedTemporaryFile(prefix=".bot-orch-doctor-", dir=folder) as file:
        begun = time.perf_counter()
        file.write(b"\0" * 4096)
        file.flush()
        os.fsync(file.fileno())
        return time.perf_counter() - begun
