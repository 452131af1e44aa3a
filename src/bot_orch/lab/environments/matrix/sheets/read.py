"""Converts a table to a matrix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.sheet import Sheet, sheet_of_csv, sheet_of_frame, sheet_of_parquet
from bot_orch.lab.environments.matrix.check import known_mean
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import matrix_from_arrays
from bot_orch.lab.environments.matrix.sheets.long import Arrays, arrays_of_long, is_long
from bot_orch.lab.environments.matrix.sheets.wide import arrays_of_wide

#: Files that :func:`read_table` reads.
SUFFIXES = (".csv", ".tsv", ".parquet")
_SLOW = 100.0  # seconds; larger values are probably milliseconds


def read_table(path: Path) -> Matrix:
    """The matrix in a CSV or Parquet file."""
    return _matrix(path.stem, sheet_of_parquet(path) if path.suffix == ".parquet" else sheet_of_csv(path))


def from_frame(frame: Any, name: str = "frame") -> Matrix:
    """The matrix in a DataFrame with a row per task and agent, or a row per task and a column per agent.

    Columns are those of a CSV file (docs/evidence/arena.md). ``notes`` of the matrix says what was read as what, and
    names the columns that were not read.

    Examples
    --------
    >>> class Frame(dict):
    ...     columns = property(list)
    >>> m = from_frame(Frame(task=[1, 1, 2, 2], model=["a", "b", "a", "b"], resolved=[True, False, True, True]))
    >>> m.agents, m.reward.tolist()
    (('a', 'b'), [[1.0, 0.0], [1.0, 1.0]])
    """
    if not isinstance(name, str) or not name:
        raise InvalidInputError("name", f"is {name!r}", "pass what results should call the data set")
    return _matrix(name, sheet_of_frame(frame, name))


def _matrix(name: str, sheet: Sheet) -> Matrix:
    arrays, notes = arrays_of_long(sheet) if is_long(sheet) else arrays_of_wide(sheet)
    try:
        found = matrix_from_arrays(name, _renamed(arrays))
    except InvalidInputError as error:
        raise InvalidInputError(f"{sheet.name}: {error.field}", error.problem, error.remedy) from error
    gaps = int((~found.eligible).sum())
    told = [f"{gaps} of {found.reward.size} cells have no reward: those agents cannot take those tasks"] if gaps else []
    if "seconds" in arrays and not found.runtime_only and np.nanmedian(arrays["seconds"]) >= _SLOW:
        usual = f"half of the calls take {np.nanmedian(arrays['seconds']):.3g} seconds or more"
        told.append(f"{usual}; call the column latency_ms if these are milliseconds")
    return replace(found, notes=(*sheet.notes, *notes, *told))


def _renamed(arrays: Arrays) -> Arrays:
    """Rename a column of seconds to the name in the matrix format: runtimes, or the latency of a reward."""
    arrays = dict(arrays)
    milliseconds = arrays.pop("milliseconds", None)
    if milliseconds is not None:
        arrays["seconds"] = milliseconds / 1e3
    seconds = arrays.pop("seconds", None)
    timed = "event" in arrays and "cutoff_s" in arrays
    if not timed:
        arrays = {key: value for key, value in arrays.items() if key not in ("event", "cutoff_s", "status")}
    if seconds is not None:
        arrays["time_s" if timed else "latency_s"] = seconds
    if timed:
        arrays["cutoff_s"] = _longest(arrays["cutoff_s"])
    if timed and seconds is not None:  # a run that did not end was watched until the cutoff
        silent = np.isnan(seconds) & (arrays["event"] == 0.0)
        limit = arrays["cutoff_s"].reshape(-1, *[1] * (seconds.ndim - 1))
        arrays["time_s"] = np.where(silent, limit, seconds)
    if "claim" in arrays and arrays["claim"].ndim == 3:
        arrays["claim"] = known_mean(arrays["claim"], axis=-1)
    return arrays


def _longest(cutoff: Floats) -> Floats:
    """The cutoff of every task; the longest of the table where a task has none."""
    known = np.where(np.isfinite(cutoff), cutoff, -np.inf).reshape(len(cutoff), -1).max(axis=1)
    return np.asarray(np.where(np.isfinite(known), known, known.max()), dtype=float)
