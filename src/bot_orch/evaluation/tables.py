"""Decisions in a table: a mapping of arrays, a DataFrame or an Arrow table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.core.events import IMPORTED, DecisionMade, TaskRecord, stored_column
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.offpolicy import LogSample
from bot_orch.evaluation.rounds import Lesson, LoggedRounds
from bot_orch.evaluation.sheet import MISSING
from bot_orch.types import COLUMNS, Outcome


@dataclass(frozen=True, slots=True)
class DecisionTable:
    """Decisions of a table, among agents in this order; missing rewards and propensities are NaN."""

    agents: tuple[str, ...]
    decisions: LogSample
    allowed: Bools
    reward_range: tuple[float, float] = (0.0, 1.0)
    several = False
    earlier = 0

    @property
    def requests(self) -> int:
        """Number of decisions."""
        return len(self.decisions)

    @property
    def missing(self) -> int:
        """Number of decisions without a reward."""
        return int(np.isnan(self.decisions.reward).sum())

    def eligible(self) -> Floats:
        """1 for agents that could be chosen, (n, M)."""
        return self.allowed.astype(float)

    def scored(self, *, audited: bool = False) -> tuple[list[int], LogSample]:
        """Positions of the decisions with a reward, and these decisions; a table tells of no revision."""
        keep = [] if audited else np.flatnonzero(~np.isnan(self.decisions.reward)).tolist()
        return keep, self.decisions.rows(np.array(keep, dtype=np.int64))

    def delivered(self) -> list[tuple[str, float]]:
        """Of every decision with a reward, the agent and the reward."""
        _, scored = self.scored()
        return [(self.agents[agent], r) for agent, r in zip(scored.agent, scored.reward.tolist(), strict=True)]

    def rounds(self) -> LoggedRounds:
        """The decisions as those of a log, for a policy that learns; every reward is known before the next decision."""
        made, lessons = [self._made(row) for row in range(self.requests)], {}
        low, high = self.reward_range
        for row in self.scored()[0]:
            reward = (float(self.decisions.reward[row]) - low) / (high - low)
            lessons[made[row].id] = Lesson(Outcome.completed(reward), row + 1)
        rewards = {key: float(lesson.outcome.reward or 0.0) for key, lesson in lessons.items()}
        settings = Orchestrator(self.agents, ids="derived").to_json()
        return LoggedRounds(self.agents, made, lessons, rewards=rewards, revised=frozenset(), settings=settings)

    def _made(self, row: int) -> DecisionMade:
        agent, p = self.agents[self.decisions.agent[row]], self.decisions.propensities[row]
        allowed = tuple(name for name, able in zip(self.agents, self.allowed[row], strict=True) if able)
        features = tuple(self.decisions.features[row].tolist())
        return imported_decision(f"row-{row}", TaskRecord(f"row-{row}"), agent, self.agents, p, allowed, features, row)


def imported_decision(
    id_: str,
    task: TaskRecord,
    agent: str,
    agents: tuple[str, ...],
    p: Floats,
    eligible: tuple[str, ...],
    features: tuple[float, ...],
    number: int,
    by: str = "policy",
) -> DecisionMade:
    """The event of a decision that another router made, with the propensities ``p``, (M,)."""
    return DecisionMade(
        id_,
        task,
        agent,
        agents,
        (stored_column(p), *(b"",) * (len(COLUMNS) - 1)),
        "imported",
        0.0,
        number,
        0,
        number,
        IMPORTED,
        features=np.array(features, dtype="<f8").tobytes(),
        feature_type="<f8",
        eligible=eligible if eligible and set(eligible) != set(agents) else None,
        by=by,
    )


def read_table(
    table: Any, agents: Sequence[str] | None = None, reward_range: tuple[float, float] = (0.0, 1.0)
) -> DecisionTable:
    """Check a table of decisions.

    Parameters
    ----------
    table
        A mapping of arrays, a DataFrame or an Arrow table. Its columns are ``agent``; ``reward``, NaN or None where it
        is not known; ``propensity`` of that agent, or of every agent as an array (n, M) or as columns
        ``propensity_NAME``; ``features``, (n, d), or ``feature_NAME``; ``expected``, (n, M), or ``expected_NAME``: what
        a model expects of every agent. Others are not read.
    agents
        Their order in arrays of a column per agent; by default those that occur, sorted.
    reward_range
        The least and the largest possible reward.
    """
    columns = _columns(table)
    rewards, low, high = _numbers("reward", _column(columns, "reward")), *reward_range
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInputError("reward_range", f"is {reward_range}", "pass the least and the largest possible reward")
    _check(
        "reward", rewards, (rewards >= low) & (rewards <= high), f"pass numbers in [{low:g}, {high:g}], or reward_range"
    )
    drawn, expected = _spread(columns, "propensity"), _spread(columns, "expected")
    names, agent = _agents(_column(columns, "agent"), agents, (*drawn, *expected))
    features = [_numbers(name, columns[name]) for name in columns if name.startswith("feature_")]
    seen = np.column_stack(features) if features else _numbers("features", columns.get("features", [[]] * len(agent)))
    if not np.isfinite(seen).all():
        raise InvalidInputError("features", "holds gaps or infinities", "pass a number in every row")
    q = _per_agent(columns, "expected", names)
    sizes = {"reward": len(rewards), "features": len(seen), "expected": len(agent) if q is None else len(q)}
    for name, size in sizes.items():
        if size != len(agent):
            raise InvalidInputError(name, f"has {size} rows, the column agent {len(agent)}", "pass one entry per row")
    p = _propensities(columns, agent, names)
    logged = LogSample(agent, rewards, p, features=seen, expected=q)
    return DecisionTable(names, logged, ~(p == 0.0), reward_range)


def _columns(table: Any) -> dict[str, Any]:
    """Columns by name; Arrow tables have ``column_names``, DataFrames ``columns``."""
    if isinstance(table, Mapping):
        return {str(name): column for name, column in table.items()}
    names = getattr(table, "column_names", getattr(table, "columns", None))
    if names is None:
        remedy = "pass a mapping of arrays, a DataFrame, an Arrow table, or a log"
        raise InvalidInputError("data", f"is of type {type(table).__name__}", remedy)
    return {str(name): table[name] for name in names}


def _column(columns: Mapping[str, Any], name: str) -> Any:
    if name not in columns:
        raise InvalidInputError(name, "no such column", f"columns found: {', '.join(list(columns)[:20])}")
    return columns[name]


def _agents(column: Any, known: Sequence[str] | None, more: Iterable[str]) -> tuple[tuple[str, ...], Ints]:
    """The agents' names in order, and the positions of the chosen ones."""
    cells = np.asarray(column)
    if cells.ndim != 1 or not len(cells):
        raise InvalidInputError("agent", "has no rows", "pass a table with a row per decision")
    if cells.dtype == object:
        cells = cells.astype(str)
    values, chosen = np.unique(cells, return_inverse=True)
    found = [str(each) for each in values]
    for name in found:
        if name.strip().lower() in MISSING:
            raise InvalidInputError("agent", f"holds {name!r}", "name the agent that was chosen in every row")
    names = tuple(str(each) for each in known) if known else tuple(dict.fromkeys((*found, *more)))
    for name in (*found, *more):
        if name not in names:
            raise InvalidInputError("agents", f"does not name {name!r}", "name every agent that occurs")
    return names, np.array([names.index(name) for name in found], dtype=np.int64)[chosen]


def _spread(columns: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    """The agents of the columns ``KIND_NAME``."""
    return tuple(name.removeprefix(f"{kind}_") for name in columns if name.startswith(f"{kind}_"))


def _per_agent(columns: Mapping[str, Any], kind: str, names: tuple[str, ...]) -> Floats | None:
    """Numbers per agent, (n, M), of columns ``KIND_NAME`` or of an array; None if there are none."""
    spread = _spread(columns, kind)
    if spread:
        missing = np.zeros(len(columns[f"{kind}_{spread[0]}"]))
        given = {name: _numbers(f"{kind}_{name}", columns[f"{kind}_{name}"]) for name in spread}
        return np.column_stack([given.get(name, missing) for name in names])
    found = _numbers(kind, columns[kind]) if kind in columns else np.zeros(0)
    if found.ndim == 1:
        return None
    if found.shape[1] != len(names):
        problem = f"has {found.shape[1]} columns for the agents {', '.join(names)[:80]}"
        raise InvalidInputError(kind, problem, "pass agents, in the order of its columns")
    return found


def _propensities(columns: Mapping[str, Any], agent: Ints, names: tuple[str, ...]) -> Floats:
    """Propensities of every agent, (n, M), NaN in rows without; the rest of a single one is spread over the others."""
    n, m = len(agent), len(names)
    p = _per_agent(columns, "propensity", names)
    if p is None:
        mine = _numbers("propensity", columns["propensity"]) if "propensity" in columns else np.full(n, np.nan)
        p = np.repeat(((1.0 - mine) / max(1, m - 1))[:, None], m, axis=1)
        p[np.arange(n), agent] = mine
    else:
        _check("propensity", p.sum(axis=1), np.abs(p.sum(axis=1) - 1.0) < 1e-3, "pass numbers that add up to 1")
    mine = p[np.arange(n), agent]
    _check("propensity", mine, (mine > 0.0) & (mine <= 1.0), "pass the probability it was chosen with")
    return p


def _numbers(name: str, column: Any) -> Floats:
    """An array of numbers, NaN for missing cells."""
    cells = column.to_pylist() if hasattr(column, "to_pylist") else column
    try:
        return np.asarray(cells, dtype=float)
    except (TypeError, ValueError):
        cells = list(cells)
    try:
        return np.array(cells, dtype=float)  # a column of lists
    except (TypeError, ValueError):
        return np.array([_number(f"{name}, row {row}", cell) for row, cell in enumerate(cells)])


def _number(place: str, cell: Any) -> float:
    if str(cell).strip().lower() in MISSING:
        return math.nan
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise InvalidInputError(place, f"is {str(cell)[:40]!r}", "write a number") from None


def _check(name: str, values: Floats, right: Bools, remedy: str) -> None:
    """Raise an error that names the first row with a number that is neither right nor missing."""
    wrong = ~right & ~np.isnan(values)
    if wrong.any():
        at = tuple(int(each) for each in np.argwhere(wrong)[0])
        raise InvalidInputError(f"{name}, row {at[0]}", f"is {values[at]:g}", remedy)
