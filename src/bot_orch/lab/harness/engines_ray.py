"""Units of work on Ray: a cluster, or this machine.

Units travel as text and come back as text. A worker runs one at a time, on one thread. Ray runs a unit again when
its worker or its node dies; each result is read once, by the driver. So no unit is lost and none is counted twice.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import socket
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from bot_orch.errors import BotOrchError, MissingExtraError
from bot_orch.lab.harness.engines import Job, answer, ask, read_answer

#: How often a unit whose worker died is run again before it is blamed for it.
_RETRIES = 5
_CONNECT_S = 10.0
#: Ray speaks HTTP/2: a greeting with an empty frame of settings, which is answered by such a frame.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_FRAME_BYTES, _SETTINGS = 9, 4
#: Payloads are kilobytes; Ray would reserve a third of the machine's memory for them.
_OBJECT_STORE_BYTES = 128 * 2**20


def run_ray(jobs: Sequence[Job], processes: int, address: str | None = None) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Run on Ray.

    Parameters
    ----------
    processes
        Cores to use where Ray is started here; a cluster has its own number.
    address
        ``HOST:PORT`` of a cluster, ``auto`` for the one this machine belongs to, ``ray://...`` for its client server.
        By default ``RAY_ADDRESS``; without that, Ray is started on this machine and stopped afterwards. A Ray that the
        calling program has started is used as it is and left running.
    """
    if not jobs:
        return
    with _connected(processes, address) as ray:
        yield from _stream(ray, jobs)


def _stream(ray: Any, jobs: Sequence[Job]) -> Iterator[tuple[Job, dict[str, Any]]]:
    remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(answer)
    waiting = iter(jobs)
    running: dict[Any, Job] = {}
    try:
        while True:
            for job in islice(waiting, max(0, _window(ray) - len(running))):
                running[remote.remote(ask(job))] = job
            if not running:
                return
            ray.wait(list(running), num_returns=1)  # block until one is done, then collect all that are
            ready, _ = ray.wait(list(running), num_returns=len(running), timeout=0)
            for reference in ready:
                job = running.pop(reference)
                yield job, _payload(ray, reference, job)
    finally:
        for reference in running:
            with contextlib.suppress(Exception):  # we are leaving: what cannot be cancelled dies with the job
                ray.cancel(reference, force=True)


def _window(ray: Any) -> int:
    """Units in flight: enough to keep every core busy, counting nodes that joined since the start."""
    return 2 * int(ray.cluster_resources().get("CPU", 1)) + 2


def _payload(ray: Any, reference: Any, job: Job) -> dict[str, Any]:
    try:
        text = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from None
    except ray.exceptions.RayError as error:
        crashed = isinstance(error, ray.exceptions.WorkerCrashedError)
        what = f"its worker died {_RETRIES + 1} times" if crashed else "Ray gave it up"
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BotOrchError(f"{job[1].key}: {what} ({reason}); run the same command again to go on") from error
    return read_answer(text)


@contextlib.contextmanager
def _connected(processes: int, address: str | None) -> Iterator[Any]:
    with _calm():
        ray = _import_ray()
        mine = not ray.is_initialized()
        if mine:
            _start(ray, processes, address or os.environ.get("RAY_ADDRESS") or "local")
    try:
        yield ray
    finally:
        if mine:
            with _calm():
                ray.shutdown()


def _start(ray: Any, processes: int, address: str) -> None:
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options |= {"num_cpus": processes, "include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # an experiment does not call home
    _probe(address)
    try:
        ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BotOrchError(f"--address: no Ray cluster at {address} ({reason})") from error


def _probe(address: str) -> None:
    """Probe the port first: Ray retries an unreachable cluster for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # a word, such as auto: Ray knows at once
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S) as there:
            found = _greet(there)
    except (OSError, OverflowError) as error:
        raise BotOrchError(
            f"--address: no Ray cluster at {address} ({error}); start it, or correct the address"
        ) from error
    if not found:
        raise BotOrchError(f"--address: what listens at {address} is not Ray; pass what 'ray start --head' has printed")


def _greet(there: socket.socket) -> bool:
    """Whether the peer answers like Ray (an HTTP/2 SETTINGS frame)."""
    if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return True  # it does not answer in plain
    there.sendall(_GREETING)
    with there.makefile("rb") as answers:
        frame = answers.read(_FRAME_BYTES)
    return len(frame) == _FRAME_BYTES and frame[3] == _SETTINGS


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtraError("the ray engine", "ray") from error


@contextlib.contextmanager
def _calm() -> Iterator[None]:
    """Silence the log messages and warnings that Ray prints when it starts and stops."""
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for category in (FutureWarning, DeprecationWarning, ResourceWarning, UserWarning):
                warnings.filterwarnings("ignore", category=category)
            yield
    finally:
        logger.setLevel(level)
