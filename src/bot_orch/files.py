"""Atomic file writes, and errors that explain what is wrong with a path."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from bot_orch.errors import InvalidInputError, MissingFileError, StateFormatError


def path_of(path: str | Path) -> Path:
    """Return the value as a path; raise an error for other types."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise InvalidInputError("path", f"is {path!r}", "pass the path of a file")
    return Path(path)


def read_state(path: str | Path) -> str:
    """The text of a saved state; raises errors that name the file."""
    file = path_of(path)
    if not file.exists():
        raise MissingFileError("path", f"{file} does not exist", "pass a file written by save()")
    if not file.is_file():
        raise InvalidInputError("path", f"{file} is not a file", "pass a file written by save()")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise StateFormatError(f"path: {file} is not a saved state; pass a file written by save()") from error


def save_state(path: str | Path, text: str) -> None:
    """Write a state to a file of an existing folder, atomically."""
    file = path_of(path)
    if not file.parent.is_dir():
        raise InvalidInputError("path", f"{file.parent} is no folder", "create it, or name a file in another one")
    write_atomically(file, text.encode())


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write to a temporary file in the same folder, fsync, then rename; refuse to replace a device or folder.

    ``mode`` is the file mode before applying the umask.
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "is not a file; name one", str(path))
    path = path.resolve()  # replace the target of a symbolic link, not the link
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
