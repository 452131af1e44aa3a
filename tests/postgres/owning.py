"""Starts processes that own routers and stop themselves, as a whole process, at a place of a commit.

Usage: owning.py CONFIG FOLDER [fenceless]. A file in FOLDER named after a place (see ``PLACES``) arms it, once;
``fenceless`` lets an owner write whatever its epoch is (the control that must fail).
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from bot_orch.log.stores.postgres import log as module
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.service.config import load_config
from bot_orch.service.server import make_server

#: Before a commit; the fence passed and the lock held, the rest not sent; rows committed, the caller without an answer.
PLACES = ("committing", "sending", "committed")


def stop_if(folder, place):
    armed = folder / place
    if armed.exists():
        armed.unlink()
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # all threads stop, and this one here


def stop_around_a_commit(folder):
    commit, insert = PostgresLog.commit, PostgresLog._insert

    def stopping(self):
        stop_if(folder, "committing")
        commit(self)
        stop_if(folder, "committed")

    def sending(self, rows):
        if (folder / "sending").exists():
            self._w.pgconn.send_flush_request()
            self._w.pgconn.flush()
            time.sleep(0.2)  # the server has read it, holds the lock, and waits for the rest
            stop_if(folder, "sending")
        insert(self, rows)

    PostgresLog.commit, PostgresLog._insert = stopping, sending


def main():
    config, folder = load_config(sys.argv[1]), Path(sys.argv[2])
    stop_around_a_commit(folder)
    if "fenceless" in sys.argv:
        module._Q["fence"] = module._Q["check_end"] = "SELECT %s, %s"
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
