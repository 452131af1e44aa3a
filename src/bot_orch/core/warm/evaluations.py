"""Evaluations: rewards of agents on tasks, measured before traffic, in any common format."""

from __future__ import annotations

import difflib
import math
import os
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError, UnknownAgentError, require_type
from bot_orch.types import Answer, Task

#: What a table may say of the answers of agents.
_ANSWERS = ("signal", "check", "label", "key", "cost_usd")
_LABELS = "pass a whole number or a text per row and agent, None where missing"

_FORMS = (
    "pass rewards by agent ({'a': [...], 'b': [...]}), a matrix (rows, agents), a DataFrame, or records with agent and "
    "reward"
)


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Rewards of agents on the same tasks; NaN where an agent was not evaluated.

    Parameters
    ----------
    agents
        Names of the agents, in the order of the columns.
    rewards
        Rewards in the units of those of traffic, (n, M).
    features
        Features of the tasks, (n, d), NaN where a number is missing; or None.
    weight
        How many outcomes a row counts for, (n,), or one number for all.
    encoded
        Version of the encoder whose numbers end the features, as in :class:`~bot_orch.Task`; empty without texts.
    names
        What the features are, if the tasks had them by name.
    answers
        What the answers told, by name as in :class:`~bot_orch.Answer`: ``signal``, ``check``, ``label``, ``key``,
        ``cost_usd``, (n, M) each, NaN where missing, labels and keys as numbers; None without answers.

    Examples
    --------
    >>> Evaluations(("a", "b"), np.array([[1.0, np.nan], [0.0, 0.5]])).counts().tolist()
    [2, 1]
    """

    agents: tuple[str, ...]
    rewards: Floats
    features: Floats | None = None
    _: KW_ONLY
    weight: Floats | float = 1.0
    encoded: str = ""
    names: tuple[str, ...] = ()
    answers: Mapping[str, Floats] | None = None

    def __post_init__(self) -> None:
        rewards = _numbers("evaluations", self.rewards, _FORMS)
        n, m = len(rewards), len(self.agents)
        if rewards.shape != (n, m):
            raise InvalidInputError("evaluations", f"has the shape {rewards.shape}", f"pass one column for each of {m}")
        if np.isinf(rewards).any():  # nan is missing
            raise InvalidInputError("evaluations", "holds a reward that is not finite", "pass nan where one is missing")
        object.__setattr__(self, "rewards", rewards)
        if self.features is not None:
            object.__setattr__(self, "features", _features(self.features, n))
        weight = _numbers("weight", self.weight, "pass how many outcomes a row counts for: one number, or one per row")
        if (
            weight.shape not in ((), (n,))
            or isinstance(self.weight, bool)
            or not np.all(np.isfinite(weight) & (weight >= 0.0))
        ):
            raise InvalidInputError("weight", f"is {self.weight!r}", "pass one number, or one per row, 0 or more")
        object.__setattr__(self, "weight", np.broadcast_to(weight, (n,)))
        answers = {name: _answer_cells(name, values, (n, m)) for name, values in (self.answers or {}).items()}
        object.__setattr__(self, "answers", answers or None)

    def __len__(self) -> int:
        return len(self.rewards)

    def counts(self) -> Any:
        """Number of rewards per agent."""
        return np.isfinite(self.rewards).sum(axis=0)

    def among(self, agents: Sequence[str]) -> Evaluations:
        """The same rows with one column per agent in ``agents``."""
        for name in self.agents:
            if name not in agents:
                raise UnknownAgentError(f"evaluations.{name}", "is no agent", f"choose from {tuple(agents)}")
        places = [list(agents).index(name) for name in self.agents]

        def spread(values: Floats) -> Floats:
            found = np.full((len(self), len(agents)), np.nan)
            found[:, places] = values
            return found

        answers = {name: spread(values) for name, values in (self.answers or {}).items()}
        return replace(self, agents=tuple(agents), rewards=spread(self.rewards), answers=answers)

    def answers_of(self, row: int, agents: Iterable[int]) -> list[Answer]:
        """What the answers of these agents in a row told."""
        found = []
        for at in agents:
            known = {name: float(values[row, at]) for name, values in (self.answers or {}).items()}
            told: dict[str, Any] = {name: value for name, value in known.items() if not math.isnan(value)}
            told |= {name: int(told[name]) for name in ("label", "key") if name in told}
            found.append(Answer(self.agents[at], **told))
        return found

    def padded(self, width: int) -> Evaluations:
        """The same rows with features zero-padded to ``width``, as for an empty text."""
        own = np.zeros((len(self), 0)) if self.features is None else self.features
        if own.shape[1] >= width:
            return self
        return replace(self, features=np.hstack([own, np.zeros((len(self), width - own.shape[1]))]))


def as_evaluations(
    source: Any, agents: Sequence[str], *, features: Any = None, tasks: Any = None, weight: Any = 1.0
) -> Evaluations:
    """Evaluations from rewards by agent, a matrix, a DataFrame or records, for these agents.

    Parameters
    ----------
    source
        Rewards by agent; a matrix (rows, agents) in the order of ``agents``; a DataFrame with a column for each agent;
        a DataFrame or records with ``agent`` and ``reward`` (one outcome per row, as a log has them).
    features
        Features, (rows, d); or names of columns of ``source``. Records may hold ``features`` themselves.
    tasks
        One task per row, whose features are used; texts must be encoded.
    weight
        How many outcomes a row counts for: a number, one per row, or the name of a column.

    Examples
    --------
    >>> records = [{"agent": "b", "reward": 1.0, "length": 3.0}, {"agent": "a", "reward": 0.0, "length": 9.0}]
    >>> found = as_evaluations(records, ["a", "b"], features=["length"])
    >>> found.rewards.tolist(), found.features.tolist()
    ([[nan, 1.0], [0.0, nan]], [[3.0], [9.0]])
    """
    if isinstance(source, Evaluations):
        return source.among(agents)
    if tasks is not None:
        if features is not None:
            raise InvalidInputError("features", "are given with tasks, which have their own", "pass one of them")
        given, known = as_evaluations(source, agents, weight=weight), _features_of(tasks)
        if len(tasks) != len(given):
            problem = f"are {len(tasks)}, and evaluations have {len(given)} rows"
            raise InvalidInputError("tasks", problem, "pass one Task per row, in the same order")
        given = given if known is None else replace(given, features=known)
        names = tasks[0].names if tasks else ()
        return replace(given, encoded=_encoder_of("tasks", [task.encoded for task in tasks]), names=names)
    columns = _columns(source)
    if columns is None:
        rewards = _numbers("evaluations", source, _FORMS)
        if rewards.ndim != 2 or rewards.shape[1] != len(agents):
            problem = f"has the shape {rewards.shape}, there are {len(agents)} agents"
            raise InvalidInputError("evaluations", problem, _FORMS)
        return Evaluations(tuple(agents), rewards, features, weight=weight)
    others = set(columns) - set(agents) - {"features", weight if isinstance(weight, str) else None}
    others -= {each for each in features if isinstance(each, str)} if isinstance(features, Sequence) else set()
    features = _named(columns, features)
    weight = columns[weight] if isinstance(weight, str) and weight in columns else weight
    if "agent" in columns and "reward" in columns:
        return _long(columns, agents, features=features, weight=weight)
    names = [name for name in columns if name in agents]
    if not names:
        raise InvalidInputError(
            "evaluations", f"has the columns {list(columns)}", f"name columns after {tuple(agents)}"
        )
    _tell_unread(columns, [name for name in columns if name in others], [name for name in agents if name not in names])
    unequal = {len(columns[name]) for name in names}
    if len(unequal) > 1:
        raise InvalidInputError("evaluations", f"has columns of {sorted(unequal)} rows", "pad them with nan")
    rewards = np.stack([_numbers(f"evaluations.{name}", columns[name], _FORMS) for name in names], axis=-1)
    return Evaluations(tuple(names), rewards, features, weight=weight).among(agents)


def _tell_unread(columns: Mapping[str, Any], others: Sequence[str], missing: Sequence[str]) -> None:
    """Refuse a column whose name is nearly that of an agent without one; warn of other columns of numbers."""
    for name in others:
        for agent in difflib.get_close_matches(name, missing, 1, 0.8):
            remedy = f"did you mean {agent!r}, which has no column? rename or drop it"
            raise UnknownAgentError(f"evaluations.{name}", "is no agent", remedy)
    unread = [name for name in others if len(columns[name]) and isinstance(columns[name][0], int | float | np.number)]
    if unread:
        told = f"evaluations: not read, as no agents of the router: {', '.join(unread)}"
        warnings.warn(told, stacklevel=2)


def with_answers(given: Evaluations, answers: Any) -> Evaluations:
    """The evaluations with what the answers told; labels and keys may be whole numbers or texts.

    ``answers`` holds by name one value per row and agent: a matrix in the order of the agents, or lists by agent.

    Examples
    --------
    >>> given = Evaluations(("a", "b"), np.array([[1.0, 0.0]]))
    >>> with_answers(given, {"signal": {"b": [0.3]}, "label": [["yes", "no"]]}).answers["signal"].tolist()
    [[nan, 0.3]]
    """
    if not isinstance(answers, Mapping) or not answers:
        remedy = "pass arrays (rows, agents) by name: " + ", ".join(_ANSWERS)
        raise InvalidInputError("answers", f"is of type {type(answers).__name__}, or empty", remedy)
    return replace(given, answers={name: _by_agent(name, cells, given) for name, cells in answers.items()})


def _by_agent(name: str, cells: Any, given: Evaluations) -> Any:
    """Cells (n, M) from a matrix, or from lists by agent; labels and keys as numbers."""
    columns = _columns(cells, f"answers.{name}") if isinstance(cells, Mapping) or hasattr(cells, "columns") else None
    if columns is not None:
        for agent, column in columns.items():
            if agent not in given.agents:
                problem, remedy = f"{agent!r} is no agent", f"choose from {given.agents}"
                raise UnknownAgentError(f"answers.{name}", problem, remedy)
            if len(column) != len(given):
                problem, remedy = f"has {len(column)} rows of {agent}", f"pass {len(given)}, as many as evaluations"
                raise InvalidInputError(f"answers.{name}", problem, remedy)
        absent = [None] * len(given)
        cells = [list(row) for row in zip(*(columns.get(agent, absent) for agent in given.agents), strict=True)]
    if name not in ("label", "key"):
        return cells
    table = np.asarray(cells, dtype=object)
    if table.ndim != 2:
        raise InvalidInputError(f"answers.{name}", "is no table", _LABELS)
    return [[_label_cell(name, value) for value in row] for row in table.tolist()]


def _label_cell(name: str, value: Any) -> float:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return math.nan
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int | str):
        raise InvalidInputError(f"answers.{name}", f"holds {value!r}", _LABELS)
    return float(label_number(value))


def label_number(label: str | int) -> int:
    """The number of a label, the same in every round.

    Examples
    --------
    >>> label_number(3), label_number("yes")
    (3, 1978086825)
    """
    if isinstance(label, int) and abs(label) < 2**31:
        return int(label)
    return zlib.crc32(str(label).encode())


def check_tasks(tasks: Any) -> Sequence[Task]:
    """Return the tasks as a list; raise an error if they are not tasks."""
    if isinstance(tasks, str) or not isinstance(tasks, Sequence):
        raise InvalidInputError("tasks", f"is of type {type(tasks).__name__}", "pass a list with one Task per row")
    for task in tasks:
        require_type("tasks", task, Task, "pass one Task per row")
    return tasks


def _features_of(tasks: Any) -> Floats | None:
    """Features of the tasks, (n, d); None if they have none."""
    check_tasks(tasks)
    lengths = {len(task.features) for task in tasks}
    if len(lengths) > 1:
        raise InvalidInputError("tasks", f"have {sorted(lengths)} features", "pass as many features with every task")
    return np.array([task.features for task in tasks]) if any(lengths) else None


def _encoder_of(name: str, labels: Iterable[Any]) -> str:
    """The common encoder of all rows; empty for none."""
    found = {label for label in labels if isinstance(label, str)}
    if len(found) > 1:
        raise InvalidInputError(name, f"come from the encoders {sorted(found)}", "pass rows of one encoder")
    return found.pop() if found else ""


def _columns(source: Any, field: str = "evaluations") -> dict[str, Any] | None:
    """Columns by name; None for a matrix without names."""
    if isinstance(source, str | os.PathLike):
        raise InvalidInputError(
            "evaluations", f"is {str(source)!r}", f"{_FORMS}; a Router also reads the path of a log"
        )
    if isinstance(source, bytes) or source is None:
        raise InvalidInputError("evaluations", f"is {source!r}", _FORMS)
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):  # a DataFrame, without importing pandas
        return {str(name): source[name].to_numpy() for name in source.columns}
    if isinstance(source, Mapping):
        return {str(name): list(_sequence(f"{field}.{name}", values)) for name, values in source.items()}
    if not isinstance(source, Iterable):
        raise InvalidInputError("evaluations", f"is of type {type(source).__name__}", _FORMS)
    if isinstance(source, Sequence) and source and isinstance(source[0], Mapping):
        return _transposed(source)
    return None


def _sequence(field: str, values: Any) -> Iterable[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInputError(field, f"is {values!r}", "pass a list with one value per row")
    return values


def _transposed(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = list(dict.fromkeys(name for record in records for name in record))
    return {name: [record.get(name, np.nan) for record in records] for name in names}


def _named(columns: Mapping[str, Any], features: Any) -> Any:
    """Features from names of columns, from records, or the array itself."""
    if features is None:
        return np.asarray([np.ravel(row) for row in columns["features"]]) if "features" in columns else None
    if (
        not isinstance(features, str)
        and isinstance(features, Sequence)
        and features
        and all(isinstance(n, str) for n in features)
    ):
        missing = [name for name in features if name not in columns]
        if missing:
            raise InvalidInputError("features", f"{missing} are no columns", f"choose from {list(columns)}")
        return np.stack([_numbers(f"features.{n}", columns[n], "pass numbers") for n in features], axis=-1)
    return features


def _long(columns: Mapping[str, Any], agents: Sequence[str], *, features: Any, weight: Any) -> Evaluations:
    """Read one reward per row, for the agent that the row names."""
    chosen, reward = list(columns["agent"]), _numbers("evaluations.reward", columns["reward"], "pass numbers")
    for name in chosen:
        if name not in agents:
            raise UnknownAgentError("evaluations.agent", f"{name!r} is no agent", f"choose from {tuple(agents)}")
    rewards = np.full((len(chosen), len(agents)), np.nan)
    rewards[np.arange(len(chosen)), [list(agents).index(name) for name in chosen]] = reward
    encoded = _encoder_of("evaluations.encoder", columns.get("encoder", ()))
    names = next(iter(columns.get("names", ())), ())
    return Evaluations(tuple(agents), rewards, features, weight=weight, encoded=encoded, names=names)


def _numbers(field: str, values: Any, remedy: str) -> Floats:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(field, "does not hold numbers alone", remedy) from error


def _answer_cells(name: str, values: Any, shape: tuple[int, int]) -> Floats:
    """What a table says of the answers, checked; NaN where missing."""
    field = f"answers.{name}"
    if name not in _ANSWERS:
        raise InvalidInputError(field, "is nothing that an answer tells", f"choose from {', '.join(_ANSWERS)}")
    found = _numbers(field, values, "pass one number per row and agent, nan where missing")
    if found.shape != shape:
        remedy = f"pass {shape[0]} rows of {shape[1]} agents, as evaluations have"
        raise InvalidInputError(field, f"has the shape {found.shape}", remedy)
    known = found[~np.isnan(found)]
    if name in ("signal", "check") and np.any((known < 0.0) | (known > 1.0)):
        raise InvalidInputError(field, "holds a number outside of [0, 1]", "rescale it to [0, 1], nan where missing")
    if name == "cost_usd" and not np.all((known >= 0.0) & np.isfinite(known)):
        raise InvalidInputError(field, "holds a number below 0, or infinity", "pass dollars, nan where missing")
    if name in ("label", "key") and not np.all(np.isfinite(known) & (known == np.floor(known))):
        raise InvalidInputError(field, "holds a number that is not whole", "number labels and keys, nan where missing")
    return found


def _features(features: Any, n: int) -> Floats:
    found = _numbers("features", features, "pass an array (rows, features)")
    if found.ndim != 2 or len(found) != n:
        raise InvalidInputError("features", f"have the shape {found.shape}", f"pass {n} rows, as many as evaluations")
    if np.isinf(found).any():
        raise InvalidInputError("features", "hold a number that is not finite", "pass nan where one is missing")
    return found
