"""Engines that run units of work: in this process, in a pool, or on Ray. They yield payloads as units finish."""

from __future__ import annotations

import importlib
import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from bot_orch._version import __version__
from bot_orch.errors import BotOrchError
from bot_orch.lab.harness.experiment import Unit, discover

#: What runs a unit, and the unit: an experiment's id, or ``package.module:function`` of plain data.
Job = tuple[str, Unit]


def run_unit(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run one unit in the current process."""
    module, _, function = name.partition(":")
    if function:
        payload: dict[str, Any] = getattr(importlib.import_module(module), function)(params)
        return payload
    return discover()[name].run(params)


def ask(job: Job) -> str:
    """Serialise a job for another process or machine."""
    return json.dumps({"run": job[0], "params": dict(job[1].params), "version": __version__})


def answer(question: str) -> str:
    """Run a job serialised by :func:`ask`; returns the payload or the error as text, as exceptions may not pickle.

    Examples
    --------
    >>> answer('{"run": "no.such:function", "params": {}, "version": "0"}')[:36]
    '{"error": "a worker has bot-orch ...'
    """
    asked = json.loads(question)
    if asked["version"] != __version__:
        problem = f"a worker has bot-orch {__version__}, this process {asked['version']}; install the same on all nodes"
        return json.dumps({"error": problem})
    try:
        return json.dumps({"payload": run_unit(asked["run"], asked["params"])})
    except BotOrchError as error:
        return json.dumps({"error": str(error)})


def read_answer(text: str) -> dict[str, Any]:
    """The payload that :func:`answer` wrote; its error is raised here."""
    answered = json.loads(text)
    if "error" in answered:
        raise BotOrchError(answered["error"])
    payload: dict[str, Any] = answered["payload"]
    return payload


#: Jobs in; each job with its payload out, once, in any order.
Engine = Callable[[Sequence[Job]], Iterator[tuple[Job, dict[str, Any]]]]
ENGINES = ("local", "ray")


def run_local(jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Run on this machine, in this process or in a pool of fresh ones."""
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield job, run_unit(job[0], dict(job[1].params))
        return
    context = multiprocessing.get_context("spawn")  # fork is unsafe once threads run
    with ProcessPoolExecutor(max_workers=processes, mp_context=context) as pool:
        futures = {pool.submit(answer, ask(job)): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield futures[future], read_answer(future.result())
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def make_engine(name: str, processes: int, address: str | None = None) -> Engine:
    """The engine with that name: ``local``, or ``ray`` on a cluster at ``address`` (by default on this machine)."""
    if name == "local" and address is None:
        return lambda jobs: run_local(jobs, processes)
    if name == "ray":
        from bot_orch.lab.harness.engines_ray import run_ray  # ray, only when asked for

        return lambda jobs: run_ray(jobs, processes, address)
    problem = f"is {name!r}" + ("" if address is None else " with an address")
    raise BotOrchError(f"engine: {problem}; choose one of {', '.join(ENGINES)}, and an address only for ray")
