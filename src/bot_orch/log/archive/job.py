"""Archive in a process of its own, so that a service goes on: reads what is asked from stdin, writes what was done."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from bot_orch.errors import BotOrchError
from bot_orch.log.archive.moving import archive
from bot_orch.log.stores.postgres.archive import ArchiveBusyError

__all__ = ["BUSY", "ArchiveJob", "JobDone", "main"]

BUSY = 75
"""Exit status while another process archives the log."""

_NICE = 10


class ArchiveJob(msgspec.Struct, frozen=True):
    """What to archive."""

    database: str
    folder: str
    before_us: int
    copy_only: bool


class JobDone(msgspec.Struct, frozen=True):
    """What was archived: how many events, and how far the archive goes; ``seq`` is 0 if nothing was done."""

    events: int
    seq: int = 0
    time_us: int = 0
    folder: str = ""
    digest: bytes = b""
    held_by: str = ""


def main(given: bytes) -> tuple[int, bytes]:
    """Do the job; the exit status, and what to print."""
    asked = msgspec.json.decode(given, type=ArchiveJob)
    try:
        found = archive(asked.database, Path(asked.folder), asked.before_us, copy_only=asked.copy_only)
    except ArchiveBusyError:
        return BUSY, b""
    except (BotOrchError, OSError) as error:
        return 1, str(error).encode()
    record = {} if found.record is None else found.record._asdict()
    return 0, msgspec.json.encode(JobDone(events=found.events, held_by=found.held_by, **record))


if __name__ == "__main__":
    os.nice(_NICE)
    status, answer = main(sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer)
    sys.exit(status)
