"""Runtimes measured several times, T x M x K: one run per cell, by the rule of ASlib scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.matrix.check import check_shape, numbers

__all__ = ["one_run_each"]

Arrays = Mapping[str, npt.NDArray[Any]]


def one_run_each(arrays: Arrays) -> Arrays:
    """The arrays with ``time_s``, ``event``, ``cutoff_s`` and ``status`` reduced from T x M x K to T x M.

    A cell completes if all of its repetitions did, in their mean time. Otherwise it ends as the first repetition that
    did not complete, at the latest time of those. Repetitions that did not take place (NaN) do not count.

    Examples
    --------
    >>> runs = {"time_s": np.array([[[1.0, 3.0], [2.0, 9.0]]]), "event": np.array([[[1, 1], [1, 0]]])}
    >>> found = one_run_each({**runs, "cutoff_s": np.array(9.0)})
    >>> found["time_s"].tolist(), found["event"].tolist()
    ([[2.0, 9.0]], [[1.0, 0.0]])
    """
    if "time_s" not in arrays or "event" not in arrays or arrays["time_s"].ndim != 3:
        return arrays
    time_s = numbers("time_s", arrays["time_s"])
    event = numbers("event", arrays["event"])
    check_shape("event", event, time_s.shape, words=f"an array of the shape of time_s, {time_s.shape}")
    if 0 in time_s.shape:
        raise InvalidInputError("time_s", f"has shape {time_s.shape}", "save T x M x K, one number or more along each")
    ran = np.isfinite(event) & np.isfinite(time_s)
    failed = ran & (event != 1.0)
    count = ran.sum(axis=-1)
    mean = np.where(ran, time_s, 0.0).sum(axis=-1) / np.maximum(count, 1)
    last = np.where(failed, time_s, -np.inf).max(axis=-1)
    broken = failed.any(axis=-1)
    odd = np.where(failed, event, 0.0)
    shown = np.take_along_axis(odd, np.abs(odd).argmax(axis=-1)[..., None], axis=-1)[..., 0]  # not 0: refused later
    found = dict(arrays)
    found["time_s"] = np.where(count == 0, np.nan, np.where(broken, last, mean))
    found["event"] = np.where(count == 0, np.nan, np.where(broken, shown, 1.0))
    if "cutoff_s" in arrays and arrays["cutoff_s"].ndim == 3:
        found["cutoff_s"] = _longest(numbers("cutoff_s", arrays["cutoff_s"]))
    for key in ("status", "recorded_time_s"):
        if key in arrays and arrays[key].ndim == 3:
            check_shape(key, arrays[key], time_s.shape, words=f"an array of the shape of time_s, {time_s.shape}")
            first = np.where(broken, failed.argmax(axis=-1), ran.argmax(axis=-1))
            found[key] = np.take_along_axis(arrays[key], first[..., None], axis=-1)[..., 0]
    return found


def _longest(cutoff: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    found = np.where(np.isfinite(cutoff), cutoff, -np.inf).max(axis=-1)
    return np.where(np.isfinite(found), found, np.nan)
