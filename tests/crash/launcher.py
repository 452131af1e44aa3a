"""Starts servers quickly: everything is imported once, then every "start" on stdin forks a server.

Usage: launcher.py CONFIG [early]; "early" acknowledges before the commit, which takes its time (the control that must
fail).
"""

import contextlib
import os
import sys
import time

from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.service.config import load_config
from bot_orch.service.server import make_server
from bot_orch.service.storage.writer import Group


async def at_once(self):
    """Acknowledge without waiting for the disk."""


def late(commit):
    def committing(self):
        time.sleep(0.05)
        commit(self)

    return committing


def logs():
    """Every kind of log that there is."""
    yield SqliteLog
    with contextlib.suppress(ImportError):
        from bot_orch.log.stores.postgres.log import PostgresLog

        yield PostgresLog


def main():
    config = load_config(sys.argv[1])
    if sys.argv[2:] == ["early"]:
        Group.durable = at_once
        for log in logs():
            log.commit = late(log.commit)
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            make_server(config).run()
            os._exit(0)
        print(child, flush=True)  # noqa: T201
        os.waitpid(child, 0)
        print("ended", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
