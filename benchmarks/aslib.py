"""Save ASlib scenario folders [1]_ as matrices that the arena reads.

    python benchmarks/aslib.py SAT12-INDU CSP-2010 --out data

References
----------
.. [1] Bischl et al. ASlib: a benchmark library for algorithm selection. Artificial Intelligence 237 (2016).
"""

from __future__ import annotations

import argparse
import csv
import math
import re
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import matrix_from_arrays, write_npz
from bot_orch.lab.environments.matrix.runtime import NOT_RUN

_QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_NAME = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)\s*(\{{?)", re.IGNORECASE)
_FIELD = re.compile(rf"\s*({_QUOTED}|(?:\\.|[^,\\])*?)\s*(,|$)")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Table:
    """Column names in lower case and rows of words; ``None`` where the file says ``?``.

    ``nominal`` are the columns declared as a list of levels; ``source`` is what errors call the file.
    """

    columns: tuple[str, ...]
    rows: list[list[str | None]]
    nominal: frozenset[str] = frozenset()
    _: KW_ONLY
    source: str = ""

    def words(self, column: str) -> list[str | None]:
        """A column as it is written."""
        index = self._index(column)
        return [row[index] for row in self.rows]

    def numbers(self, column: str) -> Floats:
        """A column as numbers; NaN where the file says ``?``."""
        try:
            return np.array([np.nan if word is None else float(word) for word in self.words(column)], dtype=float)
        except ValueError as error:
            raise InvalidInputError(self.place(column), str(error), "the column must hold numbers or ?") from error

    def place(self, column: str) -> str:
        """File and column, for errors."""
        return f"{self.source}: {column}" if self.source else column

    def _index(self, column: str) -> int:
        if column not in self.columns:
            raise InvalidInputError(self.place(column), "is not a column", f"the file has {', '.join(self.columns)}")
        return self.columns.index(column)


def read_arff(path: Path) -> Table:
    """The table in a file; errors name file and line."""
    try:
        return replace(parse_arff(path.read_text(encoding="utf-8-sig", errors="replace")), source=path.name)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path.name}: {error.field}", error.problem, error.remedy) from error


def parse_arff(text: str) -> Table:
    r"""Parse dense ARFF.

    Examples
    --------
    >>> table = parse_arff("@attribute 'a b' string\n@attribute x numeric\n@data\n'it, is',1.5\nq,?\n")
    >>> table.columns, table.rows
    (('a b', 'x'), [['it, is', '1.5'], ['q', None]])
    """
    written: list[str] = []
    columns: list[str] = []
    nominal: set[str] = set()
    lines = iter(enumerate(_LINE_END.split(text), 1))
    for number, line in lines:
        bare = line.strip()
        word = bare.split(None, 1)[0].lower() if bare else ""
        if word == "@attribute":
            name, levels = _attribute(bare, number)
            if name in written:
                raise InvalidInputError(f"line {number}", f"names {name!r} again", "give every column its own name")
            written.append(name)
            low = name.lower()
            columns.append(low if low not in columns else f"{low} ({len(columns) + 1})")  # apart by case only
            nominal |= {columns[-1]} if levels else set()
        elif word == "@data":
            break
        elif bare and not bare.startswith("%") and word != "@relation":
            raise InvalidInputError(f"line {number}", f"is {bare[:40]!r}", "expected @attribute or @data")
    else:
        raise InvalidInputError("@data", "is missing", "an ARFF file has a line @data before its rows")
    return Table(tuple(columns), list(_rows(lines, len(columns))), frozenset(nominal))


def _attribute(line: str, number: int) -> tuple[str, bool]:
    """Name of a column, and whether it is declared as a list of levels."""
    found = _NAME.match(line)
    name = _unquoted(found[1]) if found else ""
    if found is None or not name:
        raise InvalidInputError(f"line {number}", "names no attribute", "write @attribute NAME TYPE")
    return name, bool(found[2])


def _rows(lines: Iterator[tuple[int, str]], width: int) -> Iterator[list[str | None]]:
    for number, line in lines:
        bare = line.strip()
        if not bare or bare.startswith("%"):
            continue
        words = _fields(bare)
        if len(words) != width:
            raise InvalidInputError(
                f"line {number}", f"has {len(words)} values", f"expected {width}, one per attribute"
            )
        yield [None if word == "?" else word for word in words]


def _fields(line: str) -> list[str]:
    r"""Words between commas, each of them bare or in quotes of either kind.

    Examples
    --------
    >>> _fields('''"it's, one", 'two \\'2\\'' , 3''')
    ["it's, one", "two '2'", '3']
    """
    quotes = [mark for mark in "'\"" if mark in line]
    if len(quotes) < 2 and "\\" not in line and len(line) < csv.field_size_limit():  # fast
        rows = csv.reader([line], quotechar=quotes[0] if quotes else "'", doublequote=False, skipinitialspace=True)
        return [word.strip() for word in next(rows)]
    words: list[str] = []
    at = 0
    while at <= len(line):
        found = _FIELD.match(line, at)
        if found is None:  # a backslash at the end of the line
            return [*words, line[at:].strip()]
        words.append(_unquoted(found[1]))
        at = found.end() + (0 if found[2] else 1)
    return words


def _unquoted(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        word = word[1:-1]
    return re.sub(r"\\(.)", r"\1", word).strip()


DESCRIPTION = "description.txt"


@dataclass(frozen=True, slots=True)
class Description:
    """The scenario's first performance measure: its name, whether it is a time, whether more is better.

    ``cutoff_s`` is None where the file says ``?``: no cutoff was set.
    """

    scenario_id: str
    measure: str
    is_runtime: bool
    _: KW_ONLY
    maximize: bool
    cutoff_s: float | None


def read_description(folder: Path) -> Description:
    """The description in a scenario's folder."""
    path = folder / DESCRIPTION
    if not path.is_file():
        raise InvalidInputError(DESCRIPTION, "is missing", "it must give performance_type and algorithm_cutoff_time")
    found = parse_description(path.read_text(encoding="utf-8-sig", errors="replace"))
    is_runtime = _first(found, "performance_type", "runtime").lower() == "runtime"
    return Description(
        next(iter(found.get("scenario_id", [])), folder.resolve().name),
        _first(found, "performance_measures", "").lower(),
        is_runtime,
        maximize=_first(found, "maximize", "true").lower() in ("true", "yes", "on"),
        cutoff_s=_cutoff(_first(found, "algorithm_cutoff_time", "")) if is_runtime else None,
    )


def parse_description(text: str) -> dict[str, list[str]]:
    r"""Keys and their values: ``key: value``, ``key: [a, b]`` or ``- item`` lines; nested keys are read as flat ones.

    Examples
    --------
    >>> parse_description("maximize:  # of each\n- 'false'\n- true\nperformance_type: [runtime, solution_quality]\n")
    {'maximize': ['false', 'true'], 'performance_type': ['runtime', 'solution_quality']}
    """
    found: dict[str, list[str]] = {}
    key = ""
    for raw in text.splitlines():
        line = _without_comment(raw)
        if line.startswith("- "):
            found.setdefault(key, []).append(_bare(line[2:]))
        elif ":" in line:
            key, _, value = line.partition(":")
            key = _bare(key)
            items = value.strip()
            if items.startswith("[") and items.endswith("]"):
                found.setdefault(key, []).extend(_bare(item) for item in items[1:-1].split(","))
            elif items:
                found.setdefault(key, []).append(_bare(items))
    return found


def _without_comment(line: str) -> str:
    bare = line.strip()
    if bare.startswith("#"):
        return ""
    return bare if bare.endswith(("'", '"')) else bare.split(" #")[0].rstrip()


def _bare(text: str) -> str:
    return text.strip().strip("'\"")


def _first(found: dict[str, list[str]], key: str, default: str) -> str:
    """The first of the values, which older files separate by commas."""
    return next(iter(found.get(key, [])), default).split(",")[0].strip()


def _cutoff(text: str) -> float | None:
    if text == "?":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        problem = f"is {text!r}" if text else "is missing"
        raise InvalidInputError(
            f"{DESCRIPTION}: algorithm_cutoff_time", problem, "a runtime scenario needs a number of seconds"
        )
    return value


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders with description.txt and .arff files")
    parser.add_argument("--out", type=Path, default=Path("data"), metavar="DIR")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        path = arguments.out / f"{folder.resolve().name}.npz"
        write_npz(path, read_scenario(folder))
        print(path)


if __name__ == "__main__":
    main()
