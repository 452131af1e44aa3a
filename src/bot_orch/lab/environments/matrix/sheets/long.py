"""Tables with a row per task and agent (and trial)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats, Ints
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.cells import Kind, numbers_of, texts_of, words_of
from bot_orch.evaluation.sheet import Sheet
from bot_orch.lab.environments.matrix.sheets.columns import FEATURE, GROUP, ROLES, columns_not_read, named_role, role_of

MOST_CELLS = 50_000_000
VALUES: dict[str, Kind] = {
    "reward": "unit",
    "cost_usd": "amount",
    "seconds": "amount",
    "milliseconds": "amount",
    "claim": "unit",
    "true_reward": "unit",
    "event": "unit",
    "cutoff_s": "amount",
}

Arrays = dict[str, npt.NDArray[Any]]


def is_long(sheet: Sheet) -> bool:
    """Whether a column contains agent names."""
    return bool(role_of(sheet.columns, "agent"))


def arrays_of_long(sheet: Sheet) -> tuple[Arrays, list[str]]:
    """The arrays of a matrix, and notes for the user."""
    used: dict[str, str] = {}
    for role in (*VALUES, "agent", "trial", "text", "status"):
        found = role_of(sheet.columns, role)
        if found:
            used[role] = found[0]
    if "seconds" in used:
        used.pop("milliseconds", None)
    _check_outcome(sheet, used)
    names = words_of(sheet, used["agent"])
    _all_named(sheet, used["agent"], names)
    keys, key_columns = _tasks(sheet, names, used.get("text"))
    cells = _Cells(sheet, keys, names, trial=used.get("trial"))
    arrays: Arrays = {"agent": np.array(cells.agents)}
    for role, kind in VALUES.items():
        if role in used:
            arrays[role] = cells.spread(numbers_of(sheet, used[role], kind))
    if {"seconds", "event", "cutoff_s"} <= set(arrays) and "status" in used:
        arrays["status"] = cells.words(words_of(sheet, used["status"]))
    else:
        used.pop("status", None)
    notes = list(cells.notes)
    if "text" in used:
        texts = texts_of(sheet, used["text"])
        arrays["text"] = np.array(_per_task(used["text"], texts, cells=cells, notes=notes))
    features = [name for name in sheet.columns if name.lower().startswith(FEATURE)]
    if features:
        columns = [cells.feature(name) for name in features]
        arrays |= {"features": np.column_stack(columns), "feature_name": np.array(features)}
    groups = [
        name
        for name in sheet.columns
        if name.lower().startswith(GROUP) and named_role(name) is None and name not in key_columns
    ]
    for name in groups:
        arrays[name.lower()] = np.array(_per_task(name, words_of(sheet, name), cells=cells, notes=notes), dtype=str)
    read = {*used.values(), *key_columns, *features, *groups}
    notes = [_summary(cells, used, key_columns), *notes]
    return arrays, [*notes, *columns_not_read([name for name in sheet.columns if name not in read])]


def _check_outcome(sheet: Sheet, used: dict[str, str]) -> None:
    timed = {"event", "cutoff_s"} <= set(used) and ("seconds" in used or "milliseconds" in used)
    if "reward" not in used and not timed:
        few = ", ".join(map(repr, list(sheet.columns)[:8]))
        problem = f"no column holds the reward (columns: {few})"
        remedy = (
            f"call it reward (or {', '.join(ROLES['reward'][1:5])}), one row per task and agent; for runtimes give "
            "seconds, event and cutoff_s; a table with a row per agent must be transposed"
        )
        raise InvalidInputError(sheet.name, problem, remedy)


def _all_named(sheet: Sheet, column: str, words: Sequence[str]) -> None:
    for row, word in enumerate(words):
        if not word:
            raise InvalidInputError(sheet.place(column, row), "is empty", "name task and agent in every row")


def _tasks(sheet: Sheet, agents: Sequence[str], text: str | None) -> tuple[list[str], list[str]]:
    """A key per row and its columns: the finest key under which most tasks have several agents."""
    ids = role_of(sheet.columns, "task")
    candidates = [ids] if len(ids) > 1 else []
    candidates += [[name] for name in ids]
    candidates += [[text]] if text is not None else []
    if not candidates:
        remedy = f"add a column task (or {', '.join(ROLES['task'][1:4])}) with the same word in the rows of one task"
        raise InvalidInputError(sheet.name, "no column names the task", remedy)
    for columns in candidates:
        keys = _keys(sheet, columns)
        pairs = set(zip(keys, agents, strict=True))
        if len(set(agents)) == 1 or len(pairs) >= 1.5 * len(set(keys)):
            if "" in keys:
                _all_named(sheet, columns[0], keys)
            return keys, columns
    names = " and ".join(map(repr, dict.fromkeys(column for columns in candidates for column in columns)))
    problem = f"names a task of its own in nearly every row, so no agents can be compared (looked at {names})"
    raise InvalidInputError(sheet.place(candidates[0][0]), problem, "give the rows of one task the same word in task")


def _keys(sheet: Sheet, columns: Sequence[str]) -> list[str]:
    parts = [words_of(sheet, column) for column in columns]
    return ["/".join(each) if any(each) else "" for each in zip(*parts, strict=True)]


class _Cells:
    """Which row of the table belongs to which task, agent and trial."""

    def __init__(self, sheet: Sheet, keys: Sequence[str], names: Sequence[str], *, trial: str | None) -> None:
        self.sheet = sheet
        self.tasks, self.agents = list(dict.fromkeys(keys)), list(dict.fromkeys(names))
        row = {name: index for index, name in enumerate(self.tasks)}
        column = {name: index for index, name in enumerate(self.agents)}
        self.task: Ints = np.array([row[key] for key in keys])
        self.agent: Ints = np.array([column[name] for name in names])
        self.notes: list[str] = []
        self.trial = self._trials(trial)
        self.k = int(self.trial.max()) + 1
        size = len(self.tasks) * len(self.agents) * self.k
        if size > MOST_CELLS:
            problem = f"has {len(self.tasks)} tasks x {len(self.agents)} agents x {self.k} trials, {size:,} cells"
            raise InvalidInputError(
                sheet.name, problem, f"check which columns name them, or pass {MOST_CELLS:,} at most"
            )

    def _trials(self, column: str | None) -> Ints:
        """The row's index among the rows of its task and agent."""
        words = [""] * len(self.task) if column is None else words_of(self.sheet, column)
        seen: dict[tuple[int, int], list[str]] = {}
        first: dict[tuple[int, int, str], int] = {}
        found = np.zeros(len(self.task), dtype=np.int64)
        for row, (t, m, word) in enumerate(zip(self.task.tolist(), self.agent.tolist(), words, strict=True)):
            if column is not None and (t, m, word) in first:
                earlier = first[t, m, word] + self.sheet.first_row
                problem = f"is {word!r} for the same task and agent as row {earlier}"
                raise InvalidInputError(self.sheet.place(column, row), problem, "number the trials of a task and agent")
            first[t, m, word] = row
            found[row] = len(seen.setdefault((t, m), []))
            seen[t, m].append(word)
        if column is None and found.any():
            again = sum(len(each) > 1 for each in seen.values())
            self.notes.append(f"{again} pairs of task and agent have several rows: read as repeated trials")
        return found

    def spread(self, values: Floats) -> Floats:
        """Values by task, agent and, if there are several, trial."""
        full = np.full((len(self.tasks), len(self.agents), self.k), np.nan)
        full[self.task, self.agent, self.trial] = values
        return full[..., 0] if self.k == 1 else full

    def words(self, values: Sequence[str]) -> npt.NDArray[np.str_]:
        """Words by task, agent and trial; ``missing`` where absent."""
        full = np.full((len(self.tasks), len(self.agents), self.k), "missing", dtype=f"<U{max(map(len, values)) + 7}")
        full[self.task, self.agent, self.trial] = [word or "missing" for word in values]
        return full[..., 0] if self.k == 1 else full

    def feature(self, name: str) -> Floats:
        """A number per task; refuses values that differ between the rows of a task."""
        values = numbers_of(self.sheet, name, "number")
        found = np.full(len(self.tasks), np.nan)
        for row, (task, value) in enumerate(zip(self.task.tolist(), values.tolist(), strict=True)):
            if np.isnan(found[task]):
                found[task] = value
            elif not np.isnan(value) and value != found[task]:
                problem = f"is {value:g}, and {found[task]:g} in another row of the same task"
                remedy = "a feature is known before the choice and the same for every agent; rename it if it is not"
                raise InvalidInputError(self.sheet.place(name, row), problem, remedy)
        return found


def _per_task(column: str, values: Sequence[str], *, cells: _Cells, notes: list[str]) -> list[str]:
    """The first word of every task; a note where others differ."""
    found = [""] * len(cells.tasks)
    differ = 0
    for task, word in zip(cells.task.tolist(), values, strict=True):
        if not found[task]:
            found[task] = word
        elif word and word != found[task]:
            differ += 1
    if differ:
        notes.append(f"{column!r} differs between agents of a task in {differ} rows: the first of a task is used")
    return found


def several(agents: Sequence[str]) -> str:
    """How many agents, and the names of the first."""
    more = f" and {len(agents) - 6} more" if len(agents) > 6 else ""
    return f"{len(agents)} agents ({', '.join(agents[:6])}{more})"


def _summary(cells: _Cells, used: dict[str, str], keys: list[str]) -> str:
    trials = f" x up to {cells.k} trials" if cells.k > 1 else ""
    roles = [f"{column} as {role}" for role, column in used.items() if column != role]
    roles += [f"{' and '.join(keys)} as task"] if keys != ["task"] else []
    read = f"; read {', '.join(roles)}" if roles else ""
    return f"a row per task and agent, {len(cells.tasks)} tasks x {several(cells.agents)}{trials}{read}"
