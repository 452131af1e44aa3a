"""Read an ASlib scenario folder (``description.txt``, ``algorithm_runs.arff``, ``feature_values.arff``) [1]_.

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
from bot_orch.environments.arff import Table, read_arff
from bot_orch.environments.matrix import Matrix
from bot_orch.environments.matrix_npz import matrix_from_arrays
from bot_orch.errors import InvalidInputError

__all__ = ["is_scenario", "read_scenario"]

_RUNS, _FEATURES, _DESCRIPTION = "algorithm_runs.arff", "feature_values.arff", "description.txt"
_NOT_MEASURES = ("instance_id", "repetition", "algorithm", "runstatus")


def is_scenario(folder: Path) -> bool:
    """Whether the folder holds an ASlib scenario."""
    return (folder / _RUNS).is_file()


def read_scenario(folder: Path) -> Matrix:
    """The scenario as a matrix: runtimes right-censored at the cutoff, or a solution quality scaled to [0, 1]."""
    if not is_scenario(folder):
        raise InvalidInputError(str(folder / _RUNS), "is missing", "pass the folder of an ASlib scenario")
    description = _description(folder / _DESCRIPTION)
    runs = read_arff(folder / _RUNS)
    tasks, agents = _distinct(runs, "instance_id"), _distinct(runs, "algorithm")
    measure = _measure(runs, description)
    values, status = _table(runs, measure, tasks, agents)
    arrays: dict[str, npt.NDArray[Any]] = {"agent": np.array(agents), "task_id": np.array(tasks)}
    if _first(description, "performance_type", "runtime").lower() == "runtime":
        arrays |= _runtime(values, status, _cutoff(description))
    else:
        arrays["reward"] = _quality(values, _first(description, "maximize", "true").lower() == "true")
    if (folder / _FEATURES).is_file():
        arrays |= _feature_arrays(read_arff(folder / _FEATURES), tasks)
    name = _first(description, "scenario_id", folder.name)
    try:
        return matrix_from_arrays(name, arrays)
    except InvalidInputError as error:
        raise InvalidInputError(f"{folder.name}: {error.field}", error.problem, error.remedy) from error


def _description(path: Path) -> dict[str, list[str]]:
    """``key: value`` lines and ``- item`` lists of the scenario's description; nested keys are read as flat ones."""
    if not path.is_file():
        raise InvalidInputError(str(path), "is missing", "it must give performance_type and algorithm_cutoff_time")
    found: dict[str, list[str]] = {}
    key = ""
    for raw in path.read_text(encoding="utf-8", errors="replace").splitlines():
        line = raw.strip()
        if line.startswith("- "):
            found.setdefault(key, []).append(_unquoted(line[2:]))
        elif ":" in line and not line.startswith("#"):
            key, _, value = line.partition(":")
            key = key.strip()
            if value.strip():
                found.setdefault(key, []).append(_unquoted(value))
    return found


def _unquoted(text: str) -> str:
    return text.strip().strip("'\"")


def _first(description: dict[str, list[str]], key: str, default: str) -> str:
    return next(iter(description.get(key, [])), default)


def _cutoff(description: dict[str, list[str]]) -> float:
    text = _first(description, "algorithm_cutoff_time", "?")
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(
            f"{_DESCRIPTION}: algorithm_cutoff_time", f"is {text!r}", "a runtime scenario needs a number of seconds"
        ) from None


def _measure(runs: Table, description: dict[str, list[str]]) -> str:
    named = _first(description, "performance_measures", "").lower()
    candidates = [column for column in runs.columns if column not in _NOT_MEASURES]
    if named in candidates or not candidates:
        return named or "runtime"
    return "runtime" if "runtime" in candidates else candidates[0]


def _distinct(table: Table, column: str) -> list[str]:
    return list(dict.fromkeys(word for word in table.words(column) if word is not None))


def _table(runs: Table, measure: str, tasks: list[str], agents: list[str]) -> tuple[Floats, npt.NDArray[np.str_]]:
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


def _quality(values: Floats, maximize: bool) -> Floats:
    low, high = np.nanmin(values), np.nanmax(values)
    scaled = (values - low) / (high - low if high > low else 1.0)
    return scaled if maximize else 1.0 - scaled


def _feature_arrays(table: Table, tasks: list[str]) -> dict[str, npt.NDArray[Any]]:
    """Features of every task, the mean over repetitions; NaN for a task without any."""
    columns = [name for name in table.columns if name not in ("instance_id", "repetition")]
    row = {name: i for i, name in enumerate(tasks)}
    at = np.array([row.get(name or "", -1) for name in table.words("instance_id")])
    features = np.full((len(tasks), len(columns)), np.nan)
    for j, name in enumerate(columns):
        values = table.numbers(name)
        used = (at >= 0) & np.isfinite(values)
        total = np.bincount(at[used], values[used], len(tasks))
        count = np.bincount(at[used], minlength=len(tasks))
        features[:, j] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return {"features": features, "feature_name": np.array(columns)} if columns else {}
