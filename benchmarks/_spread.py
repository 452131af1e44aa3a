"""Independent jobs on a few processes of one thread each, with progress on stderr."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["mean_error", "spread"]

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def spread(run: Callable[[_Job], _Result], jobs: Sequence[_Job], processes: int = 2) -> Iterable[tuple[_Job, _Result]]:
    """Every job with its result, in the order of the jobs; in this process if ``processes`` is 1."""
    started = time.monotonic()
    if processes == 1:
        for done, job in enumerate(jobs, 1):
            yield job, run(job)
            _tell(done, len(jobs), job, started)
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by the processes as they load numpy
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for done, (job, result) in enumerate(zip(jobs, pool.imap(run, jobs), strict=True), 1):
            yield job, result
            _tell(done, len(jobs), job, started)


def mean_error(values: npt.ArrayLike) -> tuple[float, float]:
    """Mean and standard error; the latter is NaN for one value."""
    found = np.asarray(values, dtype=float)
    error = found.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
    return float(found.mean()), float(error)


def _tell(done: int, total: int, job: object, started: float) -> None:
    end = "\n" if done == total or not sys.stderr.isatty() else "\r"
    words = " ".join(map(str, job)) if isinstance(job, tuple) else str(job)
    print(f"{done}/{total} {time.monotonic() - started:.0f} s: {words}", end=end, file=sys.stderr, flush=True)
