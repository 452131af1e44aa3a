"""Starts processes that own routers and stop themselves, as a whole process, before a commit.

Usage: owning.py CONFIG FOLDER [fenceless]. A file ``committing`` in FOLDER arms it, once; ``fenceless`` lets an owner
write whatever its epoch is (the control that must fail).
"""

import os
import sys
from pathlib import Path

from freezing import stop_if

from bot_orch.eventlog.stores.postgres import log as module
from bot_orch.eventlog.stores.postgres.log import PostgresLog
from bot_orch.service.config import load_config
from bot_orch.service.server import make_server


def main():
    config, folder = load_config(sys.argv[1]), Path(sys.argv[2])
    commit = PostgresLog.commit

    def stopping(self):
        stop_if(folder, "committing")
        commit(self)

    PostgresLog.commit = stopping
    if "fenceless" in sys.argv:
        module._Q["fence"] = "SELECT %s, %s"
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
