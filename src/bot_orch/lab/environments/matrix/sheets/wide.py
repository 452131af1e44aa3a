"""Tables with one row per task and one reward column per agent; suffixes mark columns of dollars and seconds."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import numpy.typing as npt

from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.cells import Kind, looks_numeric, numbers_of, texts_of, words_of
from bot_orch.evaluation.sheet import Sheet
from bot_orch.lab.environments.matrix.sheets.columns import (
    ASIDE,
    FEATURE,
    GROUP,
    OUTCOMES,
    SUMMARIES,
    columns_not_read,
    measures,
    named_role,
    plain,
    role_of,
    split_role,
)
from bot_orch.lab.environments.matrix.sheets.long import MOST_CELLS, VALUES, Arrays, several


def arrays_of_wide(sheet: Sheet) -> tuple[Arrays, list[str]]:
    """The arrays of a matrix, and notes for the user."""
    text = next(iter(role_of(sheet.columns, "text")), None)
    ids = role_of(sheet.columns, "task")
    features = [name for name in sheet.columns if name.lower().startswith(FEATURE)]
    groups = [name for name in sheet.columns if name.lower().startswith(GROUP) and name not in ids]
    outcomes = _outcomes(sheet, {*ids, *features, *groups})
    agents = list(outcomes["reward"])
    used = {column for columns in outcomes.values() for column in columns.values()}
    read = {*used, *ids, *features, *groups, *([] if text is None else [text])}
    _refuse_long(sheet, agents, [*ids, *([] if text is None else [text])], [c for c in sheet.columns if c not in read])
    if len(agents) * sheet.n_rows > MOST_CELLS:
        raise InvalidInputError(
            sheet.name, f"has {sheet.n_rows} tasks x {len(agents)} agents", f"pass {MOST_CELLS:,} cells at most"
        )
    arrays: Arrays = {"agent": np.array(agents)}
    hint = "; if it is no agent's reward, drop the column or begin its name with feature_ or task_"
    arrays["reward"] = np.column_stack(
        [numbers_of(sheet, column, "unit", hint=hint) for column in outcomes["reward"].values()]
    )
    for role in OUTCOMES[1:]:
        if outcomes[role]:
            found = [_column(sheet, outcomes[role].get(agent), VALUES[role]) for agent in agents]
            arrays[role] = np.column_stack(found)
    if text is not None:
        arrays["text"] = np.array(texts_of(sheet, text))
    if features:
        columns = [numbers_of(sheet, name, "number") for name in features]
        arrays |= {"features": np.column_stack(columns), "feature_name": np.array(features)}
    arrays |= {name.lower(): np.array(words_of(sheet, name), dtype=str) for name in groups}
    notes = [_summary(sheet, outcomes, text), *_repeated(sheet, ids), *_sums(sheet, ids)]
    return arrays, [*notes, *columns_not_read([name for name in sheet.columns if name not in read])]


def _column(sheet: Sheet, column: str | None, kind: Kind) -> npt.NDArray[np.float64]:
    return np.full(sheet.n_rows, np.nan) if column is None else numbers_of(sheet, column, kind)


def _outcomes(sheet: Sheet, known: set[str]) -> dict[str, dict[str, str]]:
    """The column of every agent, by role."""
    found: dict[str, dict[str, str]] = {role: {} for role in OUTCOMES}
    parts = []
    for name in sheet.columns:
        if name in known or plain(name) in ASIDE or named_role(name) in ("text", "trial", "task"):
            continue
        if named_role(name) in OUTCOMES:
            problem = "is the outcome of one agent, and no column names the agent"
            remedy = "add a column agent (or model), or call the column as its agent: a column per agent"
            raise InvalidInputError(sheet.place(name), problem, remedy)
        part = split_role(name)
        if part is not None:
            parts.append((name, *part))
        elif looks_numeric(sheet, name):
            found["reward"][name] = name
    for name, agent, role in parts:  # columns of a role that have an agent, or are one
        if role == "reward" and looks_numeric(sheet, name):
            found["reward"].setdefault(agent, name)
    for name, agent, role in parts:
        if role != "reward" and agent in found["reward"]:
            found[role].setdefault(agent, name)
    _refuse_suffixes(sheet, found["reward"])
    if not found["reward"]:
        few = ", ".join(map(repr, list(sheet.columns)[:8]))
        problem = f"no column holds rewards (columns: {few})"
        remedy = "give every agent a column of rewards in [0, 1], or write task, agent and reward in columns"
        raise InvalidInputError(sheet.name, problem, remedy)
    if found["seconds"]:
        found["milliseconds"] = {}
    return found


def _refuse_suffixes(sheet: Sheet, rewards: dict[str, str]) -> None:
    """Refuse a column that is another agent's name and a word without a role: an agent would earn its own price."""
    for agent, column in permutations(rewards, 2):
        if rewards[column] == column and measures(column, agent):
            problem = f"is {agent!r} and a word that names no outcome; it would be read as an agent of that name"
            remedy = f"call it {agent}_cost_usd or {agent}_seconds if it is that, {column}_score if it is an agent's"
            raise InvalidInputError(sheet.place(column), problem, f"{remedy} reward, else drop it")


def _refuse_long(sheet: Sheet, agents: list[str], keys: list[str], rest: list[str]) -> None:
    """Refuse one agent, and a table whose words look like the tasks and agents of rows: no column was known as such."""
    words = {
        name: words_of(sheet, name) for name in (*keys, *rest) if name in keys or looks_numeric(sheet, name) is False
    }
    told = any(len(set(words[name])) == sheet.n_rows for name in keys)  # a row per task
    suspects = [name for name in rest if name in words and _names_agents(words, name, told=told, keys=keys)]
    suspect = min(suspects, key=lambda name: len(set(words[name])), default=None)
    if len(agents) > 1 and suspect is None:
        return
    few = ", ".join(map(repr, list(sheet.columns)[:8])) + (", ..." if len(sheet.columns) > 8 else "")
    taken = f"column{'s' if len(agents) > 1 else ''} {', '.join(map(repr, agents[:8]))}"
    problem = f"no agent column, and only {taken} to take for agents; columns found: {few}"
    remedy = "call the columns of a row per task and agent task, agent, reward, cost, seconds and text"
    if suspect is None:
        more = "; a table with a column per agent needs two agents at least"
    else:
        more = f"; if a row is a task, name it in a column task, and drop {suspect!r} or call it task_{plain(suspect)}"
    raise InvalidInputError(sheet.name, problem, remedy + more)


def _names_agents(words: dict[str, list[str]], column: str, *, told: bool, keys: list[str]) -> bool:
    """Whether an unread column of words may name the agent of a row: it repeats words, and crosses with the tasks."""
    n, different = len(words[column]), len(set(words[column]))
    if different == n or different < 2:
        return False
    for other in words:
        pairs = len(set(zip(words[other], words[column], strict=True)))
        crossed = other != column and pairs >= 1.5 * max(different, len(set(words[other])))
        if crossed and pairs * (1 if told else 5) >= n:  # trials repeat pairs
            return True
    return not keys


def _repeated(sheet: Sheet, ids: list[str]) -> list[str]:
    if not ids:
        return []
    words = list(zip(*(words_of(sheet, name) for name in ids), strict=True))
    again = len(words) - len(set(words))
    return [f"{again} rows repeat the task of another row: every row counts as a task of its own"] if again else []


def _sums(sheet: Sheet, ids: list[str]) -> list[str]:
    """Notes on a last row that looks like a summary; it is read, as tasks may have such names."""
    last = sheet.n_rows - 1
    return [
        f"{sheet.place(name, last)}: is {word!r}; delete the row if it is no task"
        for name, word in ((name, words_of(sheet, name)[last]) for name in ids)
        if plain(word) in SUMMARIES
    ]


def _summary(sheet: Sheet, outcomes: dict[str, dict[str, str]], text: str | None) -> str:
    agents = list(outcomes["reward"])
    more = [f"{role} of {len(columns)} agents" for role, columns in outcomes.items() if role != "reward" and columns]
    more += [f"{text} as text"] if text not in (None, "text") else []
    read = f"; read {', '.join(more)}" if more else ""
    return f"a row per task and a column per agent, {sheet.n_rows} tasks x {several(agents)}{read}"
