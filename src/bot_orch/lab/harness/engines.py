"""Where units of work run. An engine yields payloads as they finish, in any order."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from bot_orch.errors import BotOrchError
from bot_orch.lab.harness.jobs import Job, answer, ask, read_answer, run_unit

__all__ = ["ENGINES", "Engine", "make_engine", "run_local"]

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
    """The engine of that name: ``local``, or ``ray`` on a cluster at ``address`` (without one, on this machine)."""
    if name == "local" and address is None:
        return lambda jobs: run_local(jobs, processes)
    if name == "ray":
        from bot_orch.lab.harness.engines_ray import run_ray  # ray, only when asked for

        return lambda jobs: run_ray(jobs, processes, address)
    problem = f"is {name!r}" + ("" if address is None else " with an address")
    raise BotOrchError(f"engine: {problem}; choose one of {', '.join(ENGINES)}, and an address only for ray")
