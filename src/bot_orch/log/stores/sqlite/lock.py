"""Exclusive write access to a log file, by whatever path a process opened it.

Two locks keep others out. One is on a file next to the log, ``PATH.lock``, after symbolic links. The other is on the
log's inode, so that a file that was renamed, or is reached through another mount, is the same file. A file with several
names (hard links) is refused: SQLite keeps a write-ahead log per name, and a writer under one name neither sees nor
respects what was acknowledged under another.

The lock on the inode is on a byte that SQLite does not use, and belongs to our descriptor (an open-file-description
lock). If a process closes any descriptor of a file, it loses all locks of the other kind there, those of SQLite: so one
descriptor per inode is kept until the last log of this process on that inode is closed.

The lock file is removed by its holder on release, or when the start is refused. So a lock counts only
if the path still leads to the locked file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakSet

from bot_orch.errors import InvalidInputError
from bot_orch.log.log import LogInUseError

_BYTE = 1 << 62  # far behind those that SQLite locks, at 1 GiB
_TAKEN = (errno.EACCES, errno.EAGAIN)


@dataclass(slots=True)
class _Inode:
    """A file used by logs of this process."""

    users: int = 0
    descriptor: int | None = None
    written: bool = False


_inodes: dict[tuple[int, int], _Inode] = {}
_guard = threading.Lock()
_holds: WeakSet[Hold] = WeakSet()


class Hold:
    """The use of a file by one log; see :func:`hold`."""

    def __init__(self, path: Path, key: tuple[int, int], beside: _Beside | None) -> None:
        self._path, self._key, self._beside = path, key, beside
        self._released = False
        _holds.add(self)

    def check(self) -> None:
        """Raise unless the path still leads to this file."""
        if _key(self._path) != self._key:
            raise LogInUseError(f"log: {self._path} was replaced while it was opened; try again")

    def release(self) -> None:
        """Release the locks; only after every connection of the log is closed."""
        if self._released:
            return
        self._released = True
        with _guard:
            _leave(self._key, writing=self._beside is not None)
        if self._beside is not None:
            self._beside.release()

    def abandon(self) -> None:
        """Leave the locks to the parent process."""
        if not self._released and self._beside is not None:
            os.close(self._beside.descriptor)
        self._released = True


@dataclass(frozen=True, slots=True)
class _Beside:
    """The locked file next to a log."""

    path: Path
    descriptor: int

    @property
    def current(self) -> bool:
        """Whether the path still leads to the locked file."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Remove the file, then unlock it."""
        if self.current:
            self.path.unlink()
        os.close(self.descriptor)


def hold(path: Path, *, writing: bool) -> Hold:
    """Open a file as its only writer, creating it if missing, or for reading."""
    beside = _lock_beside(path) if writing else None
    try:
        if writing and not path.exists():
            Path(os.path.realpath(path)).touch(0o600)  # SQLite gives -wal and -shm the same mode
        with _guard:
            key = _key(path)
            _enter(path, key, writing=writing)
    except BaseException:
        if beside is not None:
            beside.release()
        raise
    return Hold(path, key, beside)


def _key(path: Path) -> tuple[int, int]:
    """The inode of a path, which must have a single hard link."""
    status = path.stat()
    check_names(path, status)
    return status.st_dev, status.st_ino


def check_names(path: Path, status: os.stat_result, name: str = "log") -> None:
    """Refuse a file with several hard links; ``name`` is used in the error."""
    if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
        remedy = "keep one: writers under different names lose what the other one wrote"
        raise InvalidInputError(name, f"{path} has {status.st_nlink} names (hard links)", remedy)


def _lock_beside(path: Path) -> _Beside:
    real = Path(os.path.realpath(path))
    real.parent.mkdir(parents=True, exist_ok=True)
    file = real.with_name(real.name + ".lock")
    while True:
        beside = _Beside(file, os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            fcntl.flock(beside.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(beside.descriptor)
            raise _in_use(path) from error
        if beside.current:
            return beside
        os.close(beside.descriptor)  # its last holder has just removed it


def _enter(path: Path, key: tuple[int, int], *, writing: bool) -> None:
    inode = _inodes.setdefault(key, _Inode())
    inode.users += 1
    try:
        if writing:
            _lock_inode(path, inode)
    except BaseException:
        _leave(key, writing=False)
        raise


def _lock_inode(path: Path, inode: _Inode) -> None:
    if inode.written:
        raise _in_use(path)
    if inode.descriptor is None:
        inode.descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        _set(inode.descriptor, fcntl.F_WRLCK)
    except OSError as error:
        if error.errno in _TAKEN:
            raise _in_use(path) from error
        # else the file system has no such locks, and the lock file must suffice
    inode.written = True


def _leave(key: tuple[int, int], *, writing: bool) -> None:
    inode = _inodes[key]
    inode.users -= 1
    if inode.users == 0:
        del _inodes[key]
        if inode.descriptor is not None:
            os.close(inode.descriptor)
    elif writing and inode.descriptor is not None:
        _set(inode.descriptor, fcntl.F_UNLCK)
        inode.written = False


def _disinherit() -> None:
    """After a fork, close the parent's descriptors in the child, so that the parent can release its locks."""
    global _guard
    _guard = threading.Lock()  # another thread of the parent may have held it
    for each in list(_holds):
        each.abandon()
    for inode in _inodes.values():
        if inode.descriptor is not None:
            os.close(inode.descriptor)
    _inodes.clear()


os.register_at_fork(after_in_child=_disinherit)


def _set(descriptor: int, kind: int) -> None:
    if sys.platform == "linux":
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi0q", kind, os.SEEK_SET, _BYTE, 1, 0))


def _in_use(path: Path) -> LogInUseError:
    known = _inodes.get(_key(path)) if path.exists() else None
    if known is not None and known.written:
        return LogInUseError(f"log: {path} is in use by this process already; close it first, or share the one object")
    return LogInUseError(f"log: {path} is in use by another process; stop it first")
