"""Logs as an older engine would have left them: rows of today written down in the format of ``decision@1``."""

import contextlib
import sqlite3

import msgspec

from bot_orch.log import events
from bot_orch.log.events import FIRST_ENGINE, Configured, DecisionMade
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.stores.sqlite.log import SqliteLog


def in_first_format(event):
    """(kind, body) of an event as engine 1 wrote it."""
    if isinstance(event, Configured):
        event = msgspec.structs.replace(event, engine=FIRST_ENGINE)
    if isinstance(event, DecisionMade):
        old = events._DecisionMade1
        kept = {name: getattr(event, name) for name in old.__struct_fields__}
        event = old(**{**kept, "task": msgspec.structs.replace(event.task, features=event.seen())})
    return events.kind_of(event), events._encoder.encode(event)


def older(log):
    """A copy of a log in the older format, without its snapshot."""
    made = MemoryLog()
    for row in log.read():
        kind, body = in_first_format(row.event())
        made.append([row._replace(kind=kind, body=body)])
    made.commit()
    return made


def make_older(path):
    """The same in a file of SQLite that nobody has open."""
    with contextlib.closing(SqliteLog(path, read_only=True)) as log:
        rows = [(row.seq, *in_first_format(row.event())) for row in log.read()]
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER packed_are_not_changed")
        for seq, kind, body in rows:
            connection.execute("UPDATE packed SET kind = ?, body = ? WHERE seq = ?", (kind, body, seq))


def changed(log, seq, **fields):
    """A copy of a log in which one row was altered; its format stays."""
    made = MemoryLog()
    for row in log.read():
        if row.seq == seq:
            event = msgspec.structs.replace(row.event(), **fields)
            kind, body = in_first_format(event) if row.kind == "decision@1" else (row.kind, events.encode_event(event))
            row = row._replace(kind=kind, body=body)
        made.append([row])
    made.commit()
    return made
