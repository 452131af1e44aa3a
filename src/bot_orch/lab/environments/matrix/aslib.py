"""Read an ASlib scenario folder: ``description.txt``, and runs, features and their costs in ``.arff`` files [1]_.

References
----------
.. [1] Bischl et al. ASlib: a benchmark library for algorithm selection. Artificial Intelligence 237 (2016).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.matrix.arff import Table, read_arff
from bot_orch.lab.environments.matrix.aslib_description import read_description
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import matrix_from_arrays
from bot_orch.lab.environments.matrix.runtime import NOT_RUN

__all__ = ["is_scenario", "read_scenario"]

_RUNS, _FEATURES, _COSTS = "algorithm_runs.arff", "feature_values.arff", "feature_costs.arff"
_NOT_MEASURES = ("instance_id", "repetition", "algorithm", "runstatus")


def is_scenario(folder: Path) -> bool:
    """Whether the folder holds an ASlib scenario."""
    return (folder / _RUNS).is_file()


def read_scenario(folder: Path) -> Matrix:
    """The scenario as a matrix: runtimes right-censored at the cutoff, or a solution quality in [0, 1].

    Without a cutoff it is the longest time recorded.
    """
    if not is_scenario(folder):
        raise InvalidInputError(str(folder / _RUNS), "is missing", "pass the folder of an ASlib scenario")
    try:
        return _read(folder)
    except InvalidInputError as error:
        raise InvalidInputError(f"{folder.name}: {error.field}", error.problem, error.remedy) from error


def _read(folder: Path) -> Matrix:
    description = read_description(folder)
    runs = read_arff(folder / _RUNS)
    tasks, agents = _distinct(runs, "instance_id"), _distinct(runs, "algorithm")
    if not tasks or not agents:
        raise InvalidInputError(_RUNS, "holds no run", "write a row per instance and algorithm after @data")
    measure = _measure(runs, description.measure)
    values, status = _table(runs, measure, tasks, agents=agents)
    arrays: dict[str, npt.NDArray[Any]] = {"agent": np.array(agents), "task_id": np.array(tasks)}
    if not np.isfinite(values).any() and description.cutoff_s is None:
        raise InvalidInputError(runs.place(measure), "holds no number", "write what was measured, ? where nothing was")
    if not description.is_runtime:
        arrays["reward"] = _quality(values, status, description.maximize)
    elif np.any(values < 0.0):
        raise InvalidInputError(runs.place(measure), "holds a negative number", "write seconds, ? where unknown")
    else:
        arrays |= _runtime(values, status, description.cutoff_s or float(np.nanmax(values)))
    if (folder / _FEATURES).is_file():
        arrays |= _feature_arrays(read_arff(folder / _FEATURES), tasks)
        if (folder / _COSTS).is_file():
            arrays["feature_cost_s"] = _feature_costs(read_arff(folder / _COSTS), tasks)
    return matrix_from_arrays(description.scenario_id, arrays)


def _measure(runs: Table, named: str) -> str:
    candidates = [column for column in runs.columns if column not in _NOT_MEASURES]
    if named in candidates or not candidates:
        return named or "runtime"
    return "runtime" if "runtime" in candidates else candidates[0]


def _distinct(table: Table, column: str) -> list[str]:
    return list(dict.fromkeys(word for word in table.words(column) if word is not None))


def _table(runs: Table, measure: str, tasks: list[str], *, agents: list[str]) -> tuple[Floats, npt.NDArray[np.str_]]:
    """Mean measure over repetitions, ``(T, M)``, and the run status; a repetition that failed decides the status."""
    row, column = {name: i for i, name in enumerate(tasks)}, {name: i for i, name in enumerate(agents)}
    total, count = np.zeros((len(tasks), len(agents))), np.zeros((len(tasks), len(agents)))
    status = np.full(total.shape, "missing", dtype="<U14")
    words = runs.words("runstatus") if "runstatus" in runs.columns else ["ok"] * len(runs.rows)
    entries = zip(runs.words("instance_id"), runs.words("algorithm"), runs.numbers(measure), words, strict=True)
    for task, agent, value, word in entries:
        if task is None or agent is None:
            raise InvalidInputError(f"{_RUNS}: instance_id", "holds ?", "name the instance and algorithm of every run")
        cell = row[task], column[agent]
        if np.isfinite(value):
            total[cell] += value
            count[cell] += 1
        if status[cell] in ("missing", "ok"):
            status[cell] = (word or "missing").lower()
    return np.where(count > 0, total / np.maximum(count, 1), np.nan), status


def _runtime(values: Floats, status: npt.NDArray[np.str_], cutoff_s: float) -> dict[str, npt.NDArray[Any]]:
    event = (status == "ok") & np.isfinite(values) & (values <= cutoff_s)
    status = np.where((status == "ok") & ~event, "timeout", status)
    recorded = np.minimum(values, cutoff_s)
    return {
        "time_s": np.where(event, values, cutoff_s),
        "recorded_time_s": recorded,
        "event": event.astype(np.int8),
        "status": status,
        "cutoff_s": np.array(cutoff_s),
    }


def _quality(values: Floats, status: npt.NDArray[np.str_], maximize: bool) -> Floats:
    """Higher is better: as it is within [0, 1], else scaled to it; a run that failed without a value earns nothing."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low < 0.0 or high > 1.0:
        values = (values - low) / (high - low if high > low else 1.0)
    reward = values if maximize else 1.0 - values
    failed = np.isnan(values) & ~np.isin(status, ("ok", *NOT_RUN))
    return np.where(failed, 0.0, reward)


def _feature_arrays(table: Table, tasks: list[str]) -> dict[str, npt.NDArray[Any]]:
    """Features of every task, the mean over repetitions; NaN for a task without any."""
    columns = _columns(table)
    features = _by_task(table, tasks, columns)
    return {"features": features, "feature_name": np.array(list(columns))} if columns else {}


def _feature_costs(table: Table, tasks: list[str]) -> Floats:
    """Seconds of all feature steps of every task, the mean over repetitions; NaN for a task without any."""
    seconds = _by_task(table, tasks, _columns(table))
    known = np.isfinite(seconds)
    return np.where(known.any(axis=1), np.where(known, seconds, 0.0).sum(axis=1), np.nan)


def _by_task(table: Table, tasks: list[str], columns: dict[str, Floats]) -> Floats:
    """Means over the repetitions of each task, ``(T, columns)``."""
    row = {name: i for i, name in enumerate(tasks)}
    at = np.array([row.get(name or "", -1) for name in table.words("instance_id")])
    found = np.full((len(tasks), len(columns)), np.nan)
    for j, values in enumerate(columns.values()):
        used = (at >= 0) & np.isfinite(values)
        total = np.bincount(at[used], values[used], len(tasks))
        count = np.bincount(at[used], minlength=len(tasks))
        found[:, j] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return found


def _columns(table: Table) -> dict[str, Floats]:
    """Columns of numbers as they are; one column of 0 and 1 per level of a column of words."""
    found: dict[str, Floats] = {}
    for name in table.columns:
        if name in ("instance_id", "repetition"):
            continue
        words = table.words(name) if name in table.nominal else []
        levels = sorted({word for word in words if word is not None})
        if not all(map(_is_number, levels)):
            for level in levels:
                found[f"{name}={level}"] = np.array([np.nan if w is None else float(w == level) for w in words])
        else:
            found[name] = table.numbers(name)
    return found


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
