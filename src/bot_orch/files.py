"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside the target, flush to disk, then rename over it; only a file gives way, never a device or folder."""
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "is not a file; name one", str(path))
    path = path.resolve()  # what a link leads to is replaced, not the link
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
