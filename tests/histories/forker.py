"""Starts replicas quickly: everything is imported once, then every line on stdin forks one.

A line is JSON: ``command`` (of ``bot-orch``, a list), ``clock`` (a file with eight bytes: microseconds to add to the
wall clock, read at every look at the clock), ``log`` (where output goes, with the exit status at the end) and
``without`` (promises to break, for controls: see ``BREAKS``). The answer is the process id.
"""

import asyncio
import ctypes
import faulthandler
import json
import mmap
import os
import signal
import struct
import sys
import time

from bot_orch import clock
from bot_orch.cli.main import main as bot_orch
from bot_orch.log.stores.postgres import log as postgres_log
from bot_orch.log.stores.postgres.connect import driver
from bot_orch.service.build import warm_up
from bot_orch.service.cluster.ownership import OwnerCluster
from bot_orch.service.config import parse_config
from bot_orch.service.server import make_server

POLICIES = ("bot", "auto")
READY = (driver(), make_server)  # what a replica would import after its start


def no_fence():
    """An owner appends whatever its epoch is, and wherever the log ends."""
    postgres_log._Q["fence"] = postgres_log._Q["check_end"] = "SELECT %s, %s"


def no_deadline():
    """An owner goes on though its lease was not renewed in time, and for a second after it hears of the next owner."""
    lose = OwnerCluster._lose

    async def late(self):
        await asyncio.sleep(1.0)
        await lose(self)

    OwnerCluster._holds = lambda self, claimed: self._held is claimed
    OwnerCluster._lose = late


BREAKS = {"fence": no_fence, "deadline": no_deadline}


def set_clock(path):
    """Let the file move the wall clock of this process."""
    with open(path, "rb") as file:  # noqa: PTH123
        shared = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    clock.SystemClock.now_us = lambda _: time.time_ns() // 1000 + struct.unpack("q", shared[:8])[0]


def run(command, clock, log, without=()):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # nobody outlives this process, however that ends
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.register(signal.SIGUSR1)  # to see where one hangs
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    set_clock(clock)
    for each in without:
        BREAKS[each]()
    try:
        status = bot_orch(command)
    except BaseException as error:
        status = repr(error)
    print(f"ended: {status}", flush=True)  # noqa: T201
    os._exit(0)


def main():
    for policy in POLICIES:  # replicas find imports ready
        agents = "[{id: a, kind: simulated}, {id: b, kind: simulated}]"
        warm_up(parse_config(f"{{version: 1, database: ':memory:', router: {{policy: {policy}}}, agents: {agents}}}"))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(**json.loads(line))
        print(child, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
