"""Logs as another engine would have left them."""

import dataclasses

from bot_orch.core.events import Configured, DecisionMade
from bot_orch.log.events import encode_event
from bot_orch.log.stores.memory import MemoryLog

OLDER = "0"


def older(log):
    """A copy of a log whose engine was another one, without its snapshot."""
    made = MemoryLog()
    for row in log.read():
        event = row.event()
        if isinstance(event, Configured | DecisionMade):
            row = row._replace(body=encode_event(dataclasses.replace(event, engine=OLDER)))
        made.append([row])
    made.commit()
    return made


def changed(log, seq, **fields):
    """A copy of a log in which one row was altered."""
    made = MemoryLog()
    for row in log.read():
        if row.seq == seq:
            row = row._replace(body=encode_event(dataclasses.replace(row.event(), **fields)))
        made.append([row])
    made.commit()
    return made
