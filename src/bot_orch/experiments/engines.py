"""Where units of work run. An engine yields payloads as they finish, in any order."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from bot_orch.experiments.experiment import Unit, discover

__all__ = ["Job", "run_local", "run_unit"]

#: An experiment's id and one of its units.
Job = tuple[str, Unit]


def run_unit(experiment_id: str, params: dict[str, Any]) -> dict[str, Any]:
    """Run one unit, wherever this process is."""
    return discover()[experiment_id].run(params)


def run_local(jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Run on this machine, in this process or in a pool of fresh ones."""
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield job, run_unit(job[0], dict(job[1].params))
        return
    context = multiprocessing.get_context("spawn")  # fork is unsafe once threads run
    with ProcessPoolExecutor(max_workers=processes, mp_context=context) as pool:
        futures = {pool.submit(run_unit, job[0], dict(job[1].params)): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
