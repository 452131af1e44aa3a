"""Starts replicas that stop themselves, as a whole process, at a given place of an append.

Usage: freezing.py CONFIG FOLDER. A file in FOLDER named after a place (see ``PLACES``) arms it, once.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from bot_orch.eventlog.stores.postgres.connect import QUERIES
from bot_orch.eventlog.stores.postgres.log import PostgresLog
from bot_orch.service.config import load_config
from bot_orch.service.server import make_server

#: The lock asked for, but the statement not ended; the lock held; rows sent; rows committed, nobody told yet.
PLACES = ("sending", "holding", "appended", "committed")


def stop_if(folder, place):
    armed = folder / place
    if armed.exists():
        armed.unlink()
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # all threads stop, and this one here


def stop_after(folder, place, name):
    before = getattr(PostgresLog, name)

    def stopping(self, *arguments):
        found = before(self, *arguments)
        stop_if(folder, place)
        return found

    setattr(PostgresLog, name, stopping)


def stop_within_the_lock(folder):
    before = PostgresLog._locked

    def locked(self, *more):
        if not (folder / "sending").exists():
            return before(self, *more)
        w, answers = self._writing(), ()
        with w.pipeline():
            w.execute("BEGIN")
            w.execute(QUERIES["lock"], (1,))
            answers = [each(w) for each in more]
            w.pgconn.send_flush_request()
            w.pgconn.flush()
            time.sleep(0.2)  # the server has read it, and waits for the rest
            stop_if(folder, "sending")
        self._in_group = True
        return w, *(answers[0] if answers else (None, None))

    PostgresLog._locked = locked


def main():
    config, folder = load_config(sys.argv[1]), Path(sys.argv[2])
    stop_within_the_lock(folder)
    for place, name in zip(PLACES[1:], ("begin_with", "append", "commit"), strict=True):
        stop_after(folder, place, name)
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
