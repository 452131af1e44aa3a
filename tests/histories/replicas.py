"""Replicas in processes of their own, each behind a proxy, with a clock that can be moved."""

import asyncio
import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import psutil
from service_running import free_port
from tcp_proxy import TcpProxy

BACK_S = 5.0
AGAIN_S = 0.5
ENDS_S = 10.0  # a replica that is told to stop is gone by then
POLICIES = ("bot", "auto")  # by the seed, in turn
FAST = {"median_s": 0.02, "sigma": 0.1}
#: Configurations that are rolled out: agents and floor.
VARIANTS = {"first": ("abc", 0.05), "more": ("abcd", 0.05), "fewer": ("ab", 0.05), "floor": ("abc", 0.2)}


class Forker:
    """The process that starts replicas; one for a whole run."""

    def __init__(self):
        command = [sys.executable, str(Path(__file__).with_name("forker.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, **what):
        self._process.stdin.write(json.dumps(what, default=str) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def document(database, port, *, policy, variant="first", revision=1):
    """A configuration, as text."""
    names, floor = VARIANTS[variant]
    whole = {
        "version": 1,
        "revision": revision,
        "database": database,
        "listen": {"port": port},
        "log_level": "warning",
        "limits": {"snapshot_every": 100, "grace_s": 1},
        "agents": [{"id": name, "kind": "simulated", "params": FAST} for name in names],
        "router": {"policy": policy, "floor": floor, "horizon_s": 3600},
    }
    return json.dumps(whole)


async def ask(port, method, path, body=None, headers=None, timeout=60.0):
    """(status, document) of one request."""
    data = b"" if body is None else json.dumps(body).encode()
    head = {"host": "127.0.0.1", "connection": "close", "content-length": str(len(data)), **(headers or {})}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write("\r\n".join(lines).encode() + data)
            answer = await reader.read()
        finally:
            writer.transport.abort()
    first, _, document = answer.partition(b"\r\n\r\n")
    if not first.startswith(b"HTTP/1.1 "):
        raise ConnectionError("the answer was cut off")
    if b"chunked" in first.lower():
        document = b"".join(document.split(b"\r\n")[1::2])
    return int(first[9:12]), json.loads(document)


class Replica:
    """One replica, with a configuration file of its own."""

    def __init__(self, number, folder, forker, upstream, without=()):
        self.number, self.folder, self._forker, self._without = number, folder, forker, without
        self.proxy, self.port, self.pid, self.wanted = TcpProxy(upstream), free_port(), 0, False
        self.clock = folder / f"clock-{number}"
        self._config = folder / f"replica-{number}.yaml"
        self.log = folder / f"replica-{number}.log"
        self.ahead(0.0)

    def write(self, database, **what):
        """Write its configuration file, at once; ``database(port)`` is its URL at the port of its proxy."""
        new = self._config.with_suffix(".new")
        new.write_text(document(database(self.proxy.port), self.port, **what))
        new.replace(self._config)

    def ahead(self, seconds):
        """Set its wall clock so far ahead."""
        if not self.clock.exists():
            self.clock.write_bytes(bytes(8))
        with self.clock.open("r+b") as file:
            file.write(struct.pack("q", round(1e6 * seconds)))

    def start(self):
        self.wanted = True
        command = ["serve", self._config]
        self.pid = self._forker.start(command=command, clock=self.clock, log=self.log, without=self._without)

    def said(self):
        """Its log lines."""
        return self.log.read_text() if self.log.exists() else ""

    @property
    def alive(self):
        return self.pid and psutil.pid_exists(self.pid)

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    async def ends(self, number, seconds=ENDS_S):
        """Send a signal; whether it is gone in time. If not, it is killed."""
        self.wanted = False
        self.signal(number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.alive:
                    await asyncio.sleep(0.01)
                return True
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGUSR1)  # it writes down where it hangs
        await asyncio.sleep(0.1)
        self.signal(signal.SIGKILL)
        while self.alive:
            await asyncio.sleep(0.01)
        return False

    async def supervise(self):
        """Start it again when it has ended by itself, as systemd or Kubernetes does; until cancelled."""
        while True:
            await asyncio.sleep(AGAIN_S)
            if self.wanted and not self.alive:
                self.start()

    async def ready(self, seconds=30.0):
        """Wait until it is ready."""
        late = asyncio.get_running_loop().call_later(BACK_S, self.signal, signal.SIGUSR1)  # where does it hang?
        async with asyncio.timeout(seconds):
            while True:
                with contextlib.suppress(OSError, TimeoutError):
                    if (await ask(self.port, "GET", "/health/ready", timeout=2.0))[0] == 200:
                        late.cancel()
                        return
                if not self.alive:
                    raise AssertionError(f"replica {self.number} ended: {self.said()[-2000:]}")
                await asyncio.sleep(0.02)
