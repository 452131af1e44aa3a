"""Starts servers of this release and, at the line ``next``, of the next minor with another engine.

Usage: releases.py CONFIG. As in ``tests/crash/launcher.py`` every line on stdin forks a server.
"""

import os
import sys

from bot_orch._version import __version__
from bot_orch.core.engine import ENGINE
from bot_orch.log.stores.postgres.log import PostgresLog  # noqa: F401
from bot_orch.service.config import load_config
from bot_orch.service.server import make_server

NEXT_ENGINE = f"{ENGINE}-next"
_major, _minor, *_ = __version__.split(".")
NEXT_VERSION = f"{_major}.{int(_minor) + 1}.0"


def become_next(put=setattr):
    """Give every module of the package that names version or engine the next ones."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "bot_orch":
            for constant, before, after in (
                ("ENGINE", ENGINE, NEXT_ENGINE),
                ("__version__", __version__, NEXT_VERSION),
            ):
                if getattr(module, constant, None) == before:
                    put(module, constant, after)


def main():
    config = load_config(sys.argv[1])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            if line == "next\n":
                become_next()
            make_server(config).run()
            os._exit(0)
        print(child, flush=True)  # noqa: T201
        os.waitpid(child, 0)
        print("ended", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
