"""Starts replicas quickly: everything is imported once, then every line on stdin forks one.

A line is JSON: ``config`` (path), ``clock`` (a file with eight bytes: microseconds to add to the wall clock, read at
every look at the clock) and ``log`` (where stderr goes). The answer is the process id.
"""

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
from bot_orch.service.config import load_config, parse_config
from bot_orch.service.server import serve
from bot_orch.service.warming import warm_up

POLICIES = ("bot", "auto")


def set_clock(path):
    """Let the file move the wall clock of this process."""
    with open(path, "rb") as file:  # noqa: PTH123
        shared = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    clock.SystemClock.now_us = lambda _: time.time_ns() // 1000 + struct.unpack("q", shared[:8])[0]


def run(config, clock, log):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # nobody outlives this process, however that ends
    stderr = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(stderr, 2)
    faulthandler.register(signal.SIGUSR1)  # to see where one hangs
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    set_clock(clock)
    try:
        status = serve(load_config(config), lambda: load_config(config), lambda _: None)
    except BaseException as error:
        print(f"ended: {error!r}", file=sys.stderr)  # noqa: T201
        status = 1
    os._exit(status)


def main():
    for policy in POLICIES:  # replicas find imports and compiled kernels ready
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
