"""Arrays of a matrix file about when and why runs ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats, Ints
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.matrix.check import CELL, check_shape, non_negative, numbers, words, zero_or_one
from bot_orch.lab.environments.matrix.model import RuntimeOutcomes
from bot_orch.survival.causes import REASONS, Cause

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


#: Not a failure of the agent but a run that did not take place.
NOT_RUN = ("missing", "not_applicable")


def read_runtime(arrays: Arrays, *, needed: bool) -> RuntimeOutcomes | None:
    """Times, causes and cutoffs; None if they are missing or incomplete, and not ``needed``."""
    if "time_s" not in arrays:
        return None
    for key in ("event", "cutoff_s"):
        if key not in arrays:
            if not needed:
                return None  # the times are only reported
            raise InvalidInputError(key, "is missing", "time_s needs event (1 completed, 0 censored) and cutoff_s")
    time_s = non_negative("time_s", numbers("time_s", arrays["time_s"]))
    if time_s.ndim != 2 or 0 in time_s.shape:
        raise InvalidInputError("time_s", f"has shape {time_s.shape}", f"save it as {CELL}")
    event = zero_or_one("event", numbers("event", arrays["event"]))
    check_shape("event", event, time_s.shape, words=f"{CELL}, the shape of time_s {time_s.shape}")
    cutoff_s = _cutoff(arrays["cutoff_s"], time_s.shape)
    if np.any(np.isnan(time_s) & (event == 1.0)):
        raise InvalidInputError("time_s", "is NaN where event is 1", "give every completed cell its time in seconds")
    if np.any((event == 1.0) & (time_s > cutoff_s * (1 + 1e-6))):
        raise InvalidInputError("time_s", "exceeds cutoff_s where event is 1", "set event to 0 there, time_s to cutoff")
    cause = _cause(arrays, event)
    watched = time_s
    if "recorded_time_s" in arrays:
        recorded = non_negative("recorded_time_s", numbers("recorded_time_s", arrays["recorded_time_s"]))
        check_shape("recorded_time_s", recorded, time_s.shape, words=CELL)
        failed = (cause != Cause.COMPLETED) & (cause != Cause.CENSORED)
        watched = np.where(failed & np.isfinite(recorded), recorded, time_s)
    gone = np.isnan(event) | np.isnan(watched) | (cause < 0)
    if needed and gone.all():
        raise InvalidInputError("event", "holds no run that took place", "write 0 or 1 where an agent ran")
    return RuntimeOutcomes(np.where(gone, np.nan, np.minimum(watched, cutoff_s)), np.maximum(cause, 0), cutoff_s)


def read_feature_cost(arrays: Arrays, tasks: int) -> Floats | None:
    """Seconds to compute each task's features, 0 where unknown; None if all are unknown."""
    if "feature_cost_s" not in arrays:
        return None
    seconds = numbers("feature_cost_s", arrays["feature_cost_s"])
    check_shape("feature_cost_s", seconds, (tasks,), words=f"{tasks} numbers of seconds, one per task")
    known = np.isfinite(seconds)
    return np.where(known, non_negative("feature_cost_s", seconds), 0.0) if known.any() else None


def _cutoff(raw: npt.NDArray[Any], shape: tuple[int, ...]) -> Floats:
    if raw.dtype.kind == "f" and np.isinf(raw).any():
        raise InvalidInputError("cutoff_s", "holds infinity", "pass the longest time that anybody would have waited")
    values = numbers("cutoff_s", raw)
    if values.ndim == 1 and values.shape[0] == shape[0]:
        values = values[:, None]
    try:
        full = np.broadcast_to(values, shape)
    except ValueError:
        raise InvalidInputError(
            "cutoff_s", f"has shape {values.shape}", "save one number, T numbers or T x M numbers"
        ) from None
    if not np.all(full > 0.0):
        raise InvalidInputError("cutoff_s", "holds NaN, zero or a negative number", "pass positive seconds")
    return full


def _cause(arrays: Arrays, event: Floats) -> Ints:
    """Why observation ended; -1 for runs that did not take place."""
    done = np.where(event == 1.0, int(Cause.COMPLETED), int(Cause.CENSORED)).astype(np.int64)
    if "status" not in arrays:
        return done
    status = _status(arrays, event.shape)
    cause = done.copy()
    for word in np.unique(status):
        low = word.strip().lower()
        if low in NOT_RUN:
            code = -1
        elif low in ("censored", *REASONS):
            code = int(REASONS.get(low, Cause.CENSORED))
        else:
            code = int(Cause.OTHER_FAILURE)
        cause[(status == word) & (event == 0.0)] = int(Cause.CENSORED) if code == Cause.COMPLETED else code
    return cause


def _status(arrays: Arrays, shape: tuple[int, ...]) -> npt.NDArray[np.str_]:
    """The status of every cell as a word: words as they are, codes by their names."""
    status = arrays["status"]
    check_shape("status", status, shape, words=f"{CELL}, the shape of event")
    if status.dtype.kind in "SU":
        return words("status", status)
    codes = numbers("status", status)
    if "status_name" not in arrays:
        raise InvalidInputError("status_name", "is missing", "name the codes of status, such as ok and timeout")
    known = words("status_name", arrays["status_name"])
    check_shape("status_name", known, (None,), words="one name per code of status")
    if not np.isin(codes, np.arange(len(known))).all():
        raise InvalidInputError("status", "holds a code without a name", "give status_name one entry per code")
    return np.asarray(known[codes.astype(np.int64)])
