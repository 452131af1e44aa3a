"""A file system that remembers every write and sync, and what it would look like after the power went at any moment.

At a cut, a file holds everything up to its last sync; of what was written since, any part may be there, torn at
sectors. A truncation that was not synced may or may not have happened; a deletion is certain once its directory is.
"""

import random
import sqlite3
from unittest.mock import patch

import apsw

from bot_orch.log.log import Row
from bot_orch.log.stores.sqlite import log as sqlite
from bot_orch.log.stores.sqlite.log import SqliteLog

SECTOR = 512


class Tape:
    """Operations in order: (what, file, offset, data)."""

    def __init__(self):
        self.ops = []
        self.acks = []

    def note(self, what, file, offset=0, data=b""):
        self.ops.append((what, file, offset, data))

    def ack(self, seq):
        self.acks.append((len(self.ops), seq))


class RecordingVFS(apsw.VFS):
    def __init__(self, name, tape):
        self.tape = tape
        super().__init__(name, "")

    def xOpen(self, name, flags):
        return RecordingFile(name, flags, self.tape)

    def xDelete(self, name, sync):
        self.tape.note("delete", suffix(name))
        super().xDelete(name, sync)


class RecordingFile(apsw.VFSFile):
    def __init__(self, name, flags, tape):
        self.tape, self.file = tape, suffix(name.filename() if isinstance(name, apsw.URIFilename) else name)
        super().__init__("", name, flags)

    def xWrite(self, data, offset):
        self.tape.note("write", self.file, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size):
        self.tape.note("truncate", self.file, size)
        super().xTruncate(size)

    def xSync(self, flags):
        super().xSync(flags)
        self.tape.note("sync", self.file)


def suffix(name):
    return "log-wal" if name.endswith("-wal") else "log-journal" if name.endswith("-journal") else "log"


class Shared:
    """The one connection that an exclusive lock allows, as writer and as reader."""

    def __init__(self, connection):
        self._connection = connection

    def execute(self, statement, arguments=()):
        if "query_only" in statement:
            return None
        return self._connection.execute(statement, arguments)

    def executemany(self, statement, rows):
        return self._connection.executemany(statement, rows)

    @property
    def in_transaction(self):
        return self._connection.in_transaction

    def close(self):
        self._connection.close()


def recording_log(folder, tape, synchronous="FULL", sync_directory=True):
    """A log on a recording file system, with frequent checkpoints."""
    name = f"recording-{id(tape)}"
    vfs = RecordingVFS(name, tape)
    made = []

    def opener(path):
        if not made:
            connection = apsw.Connection(path, vfs=name)
            connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            made.append(Shared(connection))
        return made[0]

    with patch.object(sqlite, "sync", lambda path: tape.note("dirsync", "") if sync_directory else None):
        log = SqliteLog(folder / "log", synchronous=synchronous, opener=opener)
    log.vfs = vfs
    made[0].execute("PRAGMA wal_autocheckpoint = 15").fetchall()
    return log


def write_some(log, tape, rng, groups):
    """Groups of rows, each acknowledged after its commit; the rows in order."""
    rows = []
    for _ in range(groups):
        group = []
        for _ in range(rng.randint(1, 4)):
            seq = len(rows) + len(group) + 1
            body = rng.randbytes(rng.randint(10, 900))
            group.append(Row(seq, seq, "k@1", f"ref-{seq}", body, f"key-{seq}" if rng.random() < 0.5 else None, b"d"))
        log.append(group)
        log.commit()
        rows += group
        tape.ack(rows[-1].seq)
    return rows


class Disk:
    """File contents at any operation, built up step by step."""

    def __init__(self, tape):
        self.tape, self.at = tape, 0
        self.synced, self.loose = {}, {}

    def advance(self, upto):
        for what, file, offset, data in self.tape.ops[self.at : upto]:
            if what == "sync":
                content = self.synced.get(file, b"")
                for op in self.loose.pop(file, []):
                    content = apply(content, op)
                self.synced[file] = content
            elif what == "dirsync":
                for gone in [name for name, ops in self.loose.items() if any(op[0] == "delete" for op in ops)]:
                    del self.loose[gone]
                    self.synced.pop(gone, None)
            else:
                self.loose.setdefault(file, []).append((what, offset, data))
        self.at = upto

    def after_power_loss(self, rng, keep):
        """Contents of every file; each loose sector survives with probability ``keep``."""
        found = {}
        for file in {*self.synced, *self.loose}:
            content = self.synced.get(file, b"")
            for op in self.loose.get(file, []):
                for piece in torn(op, rng, keep):
                    content = apply(content, piece)
            if content is not None:
                found[file] = content
        return found


def apply(content, op):
    what, offset, data = op
    if what == "delete":
        return None
    content = content or b""
    if what == "truncate":
        return content[:offset].ljust(offset, b"\0")
    return content.ljust(offset, b"\0")[:offset] + data + content[offset + len(data) :]


def torn(op, rng, keep):
    what, offset, data = op
    if what != "write":
        if rng.random() < keep:
            yield op
        return
    start = 0
    while start < len(data):
        end = min(len(data), start + SECTOR - (offset + start) % SECTOR)
        if rng.random() < keep:
            yield "write", offset + start, data[start:end]
        start = end


def survivors(folder, files):
    """Sequence numbers and bodies after recovery, and whether the database is sound."""
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    connection = sqlite3.connect(folder / "log", isolation_level=None)
    try:
        rows = connection.execute("SELECT seq, body FROM events ORDER BY seq").fetchall()
        sound = connection.execute("PRAGMA quick_check").fetchone()[0] == "ok"
    except sqlite3.DatabaseError as error:
        return [], str(error).startswith("no such table")
    finally:
        connection.close()
    return rows, sound


def cut_everywhere(tape, rows, folder, rng, cuts):
    """Cut at random moments in order; yields (acknowledged rows lost, sound, prefix kept)."""
    moments = sorted(rng.randint(0, len(tape.ops)) for _ in range(cuts))
    disk = Disk(tape)
    acked, acks = 0, list(tape.acks)
    expected = [(row.seq, row.body) for row in rows]
    for moment in moments:
        disk.advance(moment)
        while acks and acks[0][0] <= moment:
            acked = acks.pop(0)[1]
        keep = rng.choice((0.0, 0.0, 0.3, 0.5, 0.9, 1.0))
        found, sound = survivors(folder, disk.after_power_loss(rng, keep))
        yield max(0, acked - len(found)), sound, found == expected[: len(found)]


def make_rng(seed):
    return random.Random(seed)  # noqa: S311
