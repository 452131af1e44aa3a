"""Units of work on Ray: a cluster, or this machine.

Units travel as text and come back as text. Ray runs a unit again when its worker or its node dies; each result is read
once, by the driver. So no unit is lost and none is counted twice.
"""

from __future__ import annotations

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
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtraError("the ray engine", "ray") from error
    mine = not ray.is_initialized()
    if mine:
        _start(ray, processes, address or os.environ.get("RAY_ADDRESS") or "local")
    try:
        yield from _stream(ray, jobs)
    finally:
        if mine:
            ray.shutdown()  # what still runs ends with the job


def _stream(ray: Any, jobs: Sequence[Job]) -> Iterator[tuple[Job, dict[str, Any]]]:
    remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(answer)
    waiting, running = iter(jobs), dict[Any, Job]()
    while True:
        # enough to keep every core busy, counting nodes that joined since the start
        window = 2 * int(ray.cluster_resources().get("CPU", 1)) + 2
        for job in islice(waiting, max(0, window - len(running))):
            running[remote.remote(ask(job))] = job
        if not running:
            return
        for reference in ray.wait(list(running), num_returns=1)[0]:
            job = running.pop(reference)
            yield job, _payload(ray, reference, job)


def _payload(ray: Any, reference: Any, job: Job) -> dict[str, Any]:
    try:
        return read_answer(ray.get(reference))
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from None
    except ray.exceptions.RayError as error:
        crashed = isinstance(error, ray.exceptions.WorkerCrashedError)
        what = f"its worker died {_RETRIES + 1} times" if crashed else f"Ray gave it up ({type(error).__name__})"
        raise BotOrchError(f"{job[1].key}: {what}; run the same command again to go on") from error


def _start(ray: Any, processes: int, address: str) -> None:
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options |= {"num_cpus": processes, "include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # an experiment does not call home
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdigit():  # Ray itself retries a closed port for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(**options)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BotOrchError(f"--address: no Ray cluster at {address} ({reason}); start it, or correct it") from error
