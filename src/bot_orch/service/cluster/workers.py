"""``serve --workers N``: a parent process that starts workers, restarts those that die, and forwards signals.

On SQLite the first worker owns the router, and the others are fronts; on PostgreSQL a lease says which one owns it.
Workers reach each other by sockets in a private folder.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.log.stores.open import is_url
from bot_orch.service.cluster.forwarding import Forwarder, Member
from bot_orch.service.cluster.owner import RoundServer
from bot_orch.service.cluster.serving import Cluster, ServedRouter
from bot_orch.service.config import Config

_log = logging.getLogger("bot_orch.workers")
MOST_WORKERS = 64
_HEEDED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
_BACKLOG = 2048
_LOOK_S = 0.5
_SHORT_S, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 0.05, 5.0
_OWNER = 0
_ROUNDS = "rounds.sock"


@dataclass(frozen=True, slots=True)
class Worker:
    """Resources that a worker shares with the others behind the same port; a replacement worker inherits them.

    Parameters
    ----------
    number, shared
        Its number, and the socket of clients, at which all of them listen.
    listening, sockets
        Where the others reach this one, and their addresses by number, its own among them.
    rounds
        Where the owner takes chats of the fronts, on SQLite.
    folder
        Of all sockets.
    reach
        Where processes of other machines reach this one, if they do.
    ready, parent
        Descriptors: it says when it has started, and sees when its parent is gone.
    """

    number: int
    shared: socket.socket
    _: KW_ONLY
    listening: socket.socket
    sockets: Mapping[int, str]
    rounds: socket.socket
    folder: Path
    ready: int
    parent: int
    reach: socket.socket | None = None

    @property
    def owns(self) -> bool:
        """Whether this worker owns the router on SQLite."""
        return self.number == _OWNER

    def started(self) -> None:
        """Tell the parent that this worker is serving."""
        os.write(self.ready, bytes([self.number]))


class WorkerCluster(Cluster):
    """The workers of one machine on SQLite, one of which owns the router; see :class:`Cluster`.

    Parameters
    ----------
    worker
        This one.
    forwarder
        Passes requests on to the owner.
    grace_s
        Of a stop.
    """

    def __init__(self, worker: Worker, forwarder: Forwarder, *, grace_s: float) -> None:
        super().__init__(forwarder)
        self._worker, self._grace_s = worker, grace_s
        self._rounds = RoundServer()
        self._server: asyncio.Server | None = None
        self._left: float | None = None

    async def start(self, router: ServedRouter) -> None:
        """See :class:`Cluster`."""
        rounds = {_OWNER: str(self._worker.folder / _ROUNDS)}
        others = [
            Member(number, path, near=True, rounds=rounds.get(number, ""))
            for number, path in self._worker.sockets.items()
        ]
        self.forwarder.directory.set(_OWNER, others)
        if self._worker.owns:
            self._rounds.current = lambda: router.runtime
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._rounds.protocol, sock=self._worker.rounds)

    async def leave(self) -> None:
        """See :class:`Cluster`."""
        if self._left is None:
            self._left = time.monotonic()

    async def drained(self) -> None:
        """See :class:`Cluster`."""
        await self._rounds.drained(self._grace_s - (time.monotonic() - (self._left or 0.0)))

    async def close(self) -> None:
        """See :class:`Cluster`."""
        if self._server is not None:
            self._server.close()
        self._rounds.close()
        await self.forwarder.close()


def serve_workers(
    workers: int, config: Config, *, run: Callable[[Worker], int], announce: Callable[[int], None]
) -> int:
    """Serve with several workers until a signal; the exit status.

    In a worker this returns the status of ``run``. ``announce`` gets the port once all of them serve.
    """
    _check(workers, config)
    folder = Path(tempfile.mkdtemp(prefix="bot-orch-"))
    parent = _Parent(_shared_socket(config, config.listen.port), folder, workers)
    if is_url(config.database):
        first = config.cluster.port
        parent.reach = {each: _shared_socket(config, first + 2 * each if first else 0) for each in range(workers)}
    try:
        status = parent.run(run, announce)
    finally:
        if os.getpid() == parent.pid:
            shutil.rmtree(folder, ignore_errors=True)
    if os.getpid() == parent.pid and parent.stopping is not None and not status:
        signal.signal(parent.stopping, signal.SIG_DFL)  # as a single process ends
        signal.raise_signal(parent.stopping)
    return status


def _check(workers: int, config: Config) -> None:
    if not 1 <= workers <= MOST_WORKERS:
        raise InvalidInputError("--workers", f"is {workers}", f"choose 1 to {MOST_WORKERS}")
    if config.database == ":memory:":
        raise InvalidInputError("--workers", "is given, and the log is in memory", "name a file in config.database")


def _shared_socket(config: Config, port: int) -> socket.socket:
    host = config.listen.host
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        problem = f"{host}:{port} cannot be used ({error.strerror or error})"
        raise InvalidInputError("listen", problem, "choose another port with --port") from error
    made.setblocking(False)
    return made


class _Parent:
    """Starts and supervises workers.

    Parameters
    ----------
    shared
        Where clients connect.
    folder
        For the sockets of the workers.
    workers
        How many.
    """

    def __init__(self, shared: socket.socket, folder: Path, workers: int) -> None:
        self.pid = os.getpid()
        self._shared, self._folder, self._numbers = shared, folder, range(workers)
        self._sockets = {number: str(folder / f"{number}.sock") for number in self._numbers}
        self._listening = {number: _listen(path) for number, path in self._sockets.items()}
        self._rounds = _listen(str(folder / _ROUNDS))
        self.reach: dict[int, socket.socket] = {}
        self._ready = os.pipe()
        self._alive = os.pipe()  # the write end is the parent's alone
        os.set_blocking(self._ready[0], False)
        self._started: set[int] = set()
        self._running: dict[int, tuple[int, float]] = {}  # (worker, when it was started) by process
        self._pauses = dict.fromkeys(self._numbers, _FIRST_PAUSE_S)
        self._due: dict[int, float] = {}
        self.stopping: int | None = None
        self._status = 0

    def run(self, run: Callable[[Worker], int], announce: Callable[[int], None]) -> int:
        """Supervise workers until a signal."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _HEEDED)
        self._due = dict.fromkeys(self._numbers, 0.0)
        announced = False
        while self._running or self._due:
            now = time.monotonic()
            for number in [each for each, due in self._due.items() if due <= now]:
                if self._start(number):
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
                    return run(self._worker(number))
            heard = signal.sigtimedwait(_HEEDED, min([_LOOK_S, *(max(0.0, due - now) for due in self._due.values())]))
            if heard is not None and heard.si_signo != signal.SIGCHLD:
                self._pass_on(heard.si_signo)
            self._reap()
            self._hear()
            if not announced and len(self._started) == len(self._numbers):
                announced = True
                announce(self._shared.getsockname()[1])
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self._status

    def _start(self, number: int) -> bool:
        """Fork a worker; True in the worker."""
        del self._due[number]
        process = os.fork()
        if process == 0:
            os.close(self._alive[1])
            os.close(self._ready[0])
            return True
        self._running[process] = number, time.monotonic()
        return False

    def _worker(self, number: int) -> Worker:
        return Worker(
            number,
            self._shared,
            listening=self._listening[number],
            sockets=self._sockets,
            rounds=self._rounds,
            folder=self._folder,
            ready=self._ready[1],
            parent=self._alive[0],
            reach=self.reach.get(number),
        )

    def _pass_on(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self.stopping = signal.SIGTERM if number == signal.SIGTERM else signal.SIGINT
            self._due.clear()
        for process in self._running:
            os.kill(process, number)

    def _reap(self) -> None:
        for process in list(self._running):
            found, status = os.waitpid(process, os.WNOHANG)
            if found == 0:
                continue
            number, began = self._running.pop(process)
            code = os.waitstatus_to_exitcode(status)
            if self.stopping is not None:
                continue
            if number not in self._started:  # a mistake in the settings would stop it again
                self._status = self._status or (code if code > 0 else 3)
                self._pass_on(signal.SIGTERM)
                continue
            fields: dict[str, Any] = {"worker": number, "process": process, "status": code}
            _log.error("a worker ended and is started again", extra={"fields": fields})
            lived_s = time.monotonic() - began
            short = lived_s < _SHORT_S
            self._pauses[number] = min(2 * self._pauses[number], _LONGEST_PAUSE_S) if short else _FIRST_PAUSE_S
            self._due[number] = time.monotonic() + (self._pauses[number] if short else 0.0)

    def _hear(self) -> None:
        try:
            self._started.update(os.read(self._ready[0], 4096))
        except BlockingIOError:
            return


def _listen(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(path)
    made.listen(_BACKLOG)
    made.setblocking(False)
    return made
