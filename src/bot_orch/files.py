"""Atomic file writes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary file in the same folder, fsync, then rename; refuse to replace a device or folder."""
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "is not a file; name one", str(path))
    path = path.resolve()  # replace the target of a symbolic link, not the link
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
