"""Decisions in a table: a mapping of arrays, a DataFrame, an Arrow table, or a file that is imported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.checks import check_number
from bot_orch.codec import decode_json
from bot_orch.core.events import IMPORTED, DecisionMade, TaskRecord, stored_column
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.reward import BoundedReward
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.cells import array_of, is_missing, numbers_of, words_of
from bot_orch.evaluation.offpolicy import LogSample
from bot_orch.evaluation.rounds import Lesson, LoggedRounds
from bot_orch.evaluation.sheet import Sheet
from bot_orch.types import COLUMNS, Outcome, RewardRange

_PER_AGENT = {"propensities": "propensity_", "expected": "expected_"}
_MOST_NAMES = 2000
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class DecisionTable:
    """Decisions of a table, among agents in this order; missing rewards and propensities are NaN.

    ``allowed`` says who could be chosen, (n, M). ``several``, ``revised`` and ``earlier`` are what a log may tell.
    """

    agents: tuple[str, ...]
    decisions: LogSample
    allowed: Bools
    _: KW_ONLY
    range: RewardRange
    several: bool = False
    earlier: int = 0

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
        keep = np.flatnonzero(~np.isnan(self.decisions.reward) & (not audited))
        return keep.tolist(), self.decisions.rows(keep)

    def delivered(self) -> list[tuple[str, float]]:
        """Of every decision with a reward, the agent and the reward."""
        _, scored = self.scored()
        return [(self.agents[agent], r) for agent, r in zip(scored.agent, scored.reward.tolist(), strict=True)]

    def rounds(self) -> LoggedRounds:
        """The decisions as those of a log, for a policy that learns; every reward is known before the next decision."""
        made = [self.event(row, f"row-{row}", TaskRecord(f"row-{row}")) for row in range(self.requests)]
        given = zip(made, self.decisions.reward.tolist(), strict=True)
        rewards = {each.id: reward for each, reward in given if not math.isnan(reward)}
        lessons = {
            each.id: Lesson(Outcome.completed(rewards[each.id]), row)
            for row, each in enumerate(made, 1)
            if each.id in rewards
        }
        reward = BoundedReward(self.range.low, self.range.high)
        settings = Orchestrator(self.agents, ids="derived", reward=reward).to_json()
        return LoggedRounds(self.agents, made, lessons, rewards=rewards, revised=frozenset(), settings=settings)

    def event(
        self, row: int, id_: str, task: TaskRecord, *, by: str = "policy", number: int | None = None
    ) -> DecisionMade:
        """A decision as the event of a log; ``number`` is its place there."""
        place = row if number is None else number
        allowed = self.allowed[row]
        return DecisionMade(
            id_,
            task,
            self.agents[self.decisions.agent[row]],
            self.agents,
            (stored_column(self.decisions.propensities[row]), *(b"",) * (len(COLUMNS) - 1)),
            "imported",
            0.0,
            place,
            0,
            place,
            IMPORTED,
            features=self.decisions.features[row].astype("<f8").tobytes(),
            feature_type="<f8",
            eligible=None if allowed.all() else tuple(np.array(self.agents)[allowed].tolist()),
            by=by,
        )


def read_decisions(
    sheet: Sheet,
    agents: Sequence[str] = (),
    reward_range: tuple[float, float] = (0.0, 1.0),
    *,
    assume_uniform: bool = False,
) -> DecisionTable:
    """Check a table of decisions.

    Parameters
    ----------
    sheet
        Its columns are ``agent``; ``reward``, missing where it is not known; ``propensity`` of that agent, or of every
        agent in ``propensities`` or ``propensity_NAME``; ``features`` or ``feature_NAME``; ``eligible``; ``expected``
        or ``expected_NAME``, what a model expects of every agent. Others are not read.
    agents
        Their order in arrays of a column per agent; by default those that occur, sorted, numbers as numbers.
    reward_range
        The least and the largest possible reward.
    assume_uniform
        Rows without a propensity were drawn evenly.
    """
    known = check_range(reward_range)
    if isinstance(agents, str) or not isinstance(agents, Sequence):
        raise InvalidInputError("agents", f"is {agents!r:.40}", "pass a list of names")
    chosen = _chosen(sheet)
    blocks = {kind: _block(sheet, kind, prefix, chosen) for kind, prefix in _PER_AGENT.items()}
    if "propensity" in sheet.theirs:  # told which one it is
        blocks["propensities"] = None
    allowed = [_allowed(cell) for cell in sheet.columns.get("eligible", ())]
    named = [*allowed, *(block for block in blocks.values() if isinstance(block, dict))]
    names = _agents(agents, chosen, (name for each in named for name in each))
    position = {name: place for place, name in enumerate(names)}
    agent = np.array([position[name] for name in chosen], dtype=np.int64)
    able = np.ones((len(agent), len(names)), dtype=bool)
    if allowed:
        able = np.array([[not each or name in each for name in names] for each in allowed])
    able[np.arange(len(agent)), agent] = True
    q, told = (_per_agent(sheet, kind, blocks[kind], names) for kind in ("expected", "propensities"))
    if q is not None:
        q = _without_gaps(sheet, "expected", q)
    if told is not None:  # the propensity of one agent would not tell that another had none
        told = np.where(np.isnan(told).all(axis=1, keepdims=True), np.nan, np.nan_to_num(told))
        able &= told != 0.0
    p = _propensities(sheet, told, agent, able, assume_uniform=assume_uniform)
    logged = LogSample(agent, _rewards(sheet, known), p, features=_features(sheet), expected=q)
    return DecisionTable(names, logged, able, range=known)


def check_range(given: Any) -> RewardRange:
    """The least and the largest reward, or an error."""
    remedy = "pass the lowest and the highest reward"
    if not isinstance(given, Sequence) or len(given) != 2:
        raise InvalidInputError("reward_range", f"is {given!r:.40}", remedy)
    low, high = (check_number("reward_range", each, remedy, low=-math.inf) for each in given)
    if not low < high:
        raise InvalidInputError("reward_range", f"is {low:g} {high:g}", remedy)
    return RewardRange(low, high)


def _chosen(sheet: Sheet) -> list[str]:
    """The agent of every row."""
    if "agent" not in sheet.columns:
        found = ", ".join(list(sheet.columns)[:20])
        remedy = f"columns found: {found}; pass --map agent=COLUMN, or rename it"
        raise InvalidInputError(sheet.place("agent"), "no such column", remedy)
    chosen = texts(sheet, "agent")
    if "" in chosen:
        raise InvalidInputError(sheet.place("agent", chosen.index("")), "is missing", "name the agent that was chosen")
    return chosen


def texts(sheet: Sheet, column: str) -> list[str]:
    """Texts without blanks around them, and without the quote that an export adds before formulas; empty if missing."""
    found = [_unquoted(word) for word in words_of(sheet, column)] if column in sheet.columns else [""] * sheet.n_rows
    for row, text in enumerate(found):
        if not text.isprintable():
            remedy = "remove line breaks and control characters"
            raise InvalidInputError(sheet.place(column, row), f"is {text[:40]!r}", remedy)
    return found


def _unquoted(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and cell[1:2] in ("=", "+", "-", "@") else cell


def _agents(known: Sequence[str], chosen: list[str], more: Iterable[str]) -> tuple[str, ...]:
    """The names in order: those that are given, then the others, sorted."""
    given = tuple(dict.fromkeys(str(each) for each in known))
    others = {*chosen, *more}.difference(given)
    return (*given, *sorted(others, key=lambda name: (not name.isdigit(), name.zfill(20) if name.isdigit() else name)))


def _allowed(cell: Any) -> set[str]:
    """Names in a list, or separated by ``|``; empty for all."""
    if isinstance(cell, str):
        cell = cell.split("|")
    return {str(name).strip() for name in cell} - {""} if isinstance(cell, list | tuple | np.ndarray) else set()


def _rewards(sheet: Sheet, known: RewardRange) -> Floats:
    if "reward" not in sheet.columns:
        return np.full(sheet.n_rows, np.nan)
    rewards = numbers_of(sheet, "reward", "number")
    remedy = "pass the bounds of the rewards: --range LOW HIGH, or reward_range"
    inside = (rewards >= known.low) & (rewards <= known.high)
    _check(sheet, "reward", rewards, inside, "is {}, outside of " + f"{known.low:g} to {known.high:g}", remedy)
    return rewards


def _features(sheet: Sheet) -> Floats:
    """Features, (n, d): by name, zero where a row lacks one, or rows of numbers, NaN where one is missing."""
    found = _block(sheet, "features", "feature_")
    if isinstance(found, np.ndarray):
        return found
    return np.nan_to_num(np.column_stack([np.zeros((sheet.n_rows, 0)), *(found or {}).values()]))


def _without_gaps(sheet: Sheet, column: str, found: Floats) -> Floats:
    if np.isnan(found).any():
        row = int(np.argwhere(np.isnan(found))[0, 0])
        raise InvalidInputError(sheet.place(column, row), "holds an empty entry", "write a number for each name")
    return found


def _block(sheet: Sheet, column: str, prefix: str, needed: Iterable[str] = ()) -> dict[str, Floats] | Floats | None:
    """Numbers by name, of columns ``PREFIX_NAME`` or objects of JSON; or rows of numbers, (n, k); None for neither.

    Columns count if there is one for every name that is needed: ``propensity_score`` is that of no agent.
    """
    spread = {name.removeprefix(prefix): cells for name, cells in sheet.columns.items() if name.startswith(prefix)}
    if spread and spread.keys() >= set(needed):
        return {name: numbers_of(sheet, prefix + name, "number") for name in spread}
    if column not in sheet.columns:
        return None
    array = array_of(sheet.columns[column])
    if array is not None and array.ndim == 2 and not np.isinf(array).any():
        return array
    cells = [_parsed(sheet, column, row, cell) for row, cell in enumerate(sheet.columns[column])]
    if not any(isinstance(cell, Mapping) for cell in cells):
        return _matrix(sheet, column, cells)
    if column == "features":
        cells = [dict(flat(column, cell)) if isinstance(cell, Mapping) else cell for cell in cells]
    names = dict.fromkeys(str(name) for cell in cells if isinstance(cell, Mapping) for name in cell)
    if len(names) > _MOST_NAMES:
        problem = f"holds {len(names)} different names, at most {_MOST_NAMES}"
        raise InvalidInputError(sheet.place(column), problem, "hash them, or leave out those of single items")
    given = [{str(k): v for k, v in cell.items()} if isinstance(cell, Mapping) and cell else None for cell in cells]
    return {name: _numbers(sheet, column, [None if c is None else c.get(name, 0.0) for c in given]) for name in names}


def flat(path: str, value: Any, *, depth: int = 0) -> Iterator[tuple[str, float]]:
    """Numbers by their path; a text is a feature that is 1. Names that begin with ``_`` are of actions, or internal."""
    if isinstance(value, Mapping | list) and depth < _DEEPEST:
        for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            if not str(name).startswith("_"):
                yield from flat(f"{path}.{name}", inner, depth=depth + 1)
    elif isinstance(value, bool | int | float):
        yield path, value
    elif isinstance(value, str) and value:
        yield f"{path}={value}", 1.0


def _parsed(sheet: Sheet, column: str, row: int, cell: Any) -> Any:
    """A list or object of a cell, which may be a text of JSON; None if it is missing."""
    if isinstance(cell, list | tuple | np.ndarray | Mapping):
        return cell
    if is_missing(cell):
        return None
    try:
        found = decode_json(cell) if isinstance(cell, str) else cell
    except ValueError as error:
        raise InvalidInputError(sheet.place(column, row), f"is not JSON ({error})", "repair or remove it") from None
    if not isinstance(found, list | dict):
        problem = f"is {str(found)[:40]!r}"
        raise InvalidInputError(sheet.place(column, row), problem, "write a list or an object of JSON")
    return found


def _numbers(sheet: Sheet, column: str, cells: list[Any]) -> Floats:
    return numbers_of(replace(sheet, columns={column: cells}), column, "number")


def _matrix(sheet: Sheet, column: str, cells: list[Any]) -> Floats:
    """Rows of numbers of equal length; a missing row is NaN."""
    widths = [None if cell is None else len(cell) for cell in cells]
    width = next((each for each in widths if each is not None), 0)
    for row, each in enumerate(widths):
        if each not in (None, width):
            problem = f"{each} numbers, {width} in the rows before"
            raise InvalidInputError(sheet.place(column, row), problem, "write as many in every row")
    columns = [_numbers(sheet, column, [None if c is None else c[place] for c in cells]) for place in range(width)]
    return np.column_stack([np.zeros((sheet.n_rows, 0)), *columns])


def _per_agent(
    sheet: Sheet, column: str, found: dict[str, Floats] | Floats | None, names: tuple[str, ...]
) -> Floats | None:
    """Numbers of every agent, (n, M), in order, NaN where there is none."""
    if found is None:
        return None
    if isinstance(found, dict):
        return np.column_stack([found.get(name, np.full(sheet.n_rows, np.nan)) for name in names])
    if found.shape[1] != len(names):
        problem = f"has {found.shape[1]} columns for {len(names)} agents ({', '.join(names)[:80]})"
        raise InvalidInputError(sheet.place(column), problem, "pass agents, in the order of its columns")
    return found


def _propensities(sheet: Sheet, told: Floats | None, agent: Ints, able: Bools, *, assume_uniform: bool) -> Floats:
    """Propensities of every agent, (n, M), NaN in rows without; the rest of a single one is spread over the others."""
    rows, n = np.arange(len(agent)), able.sum(axis=1)
    mine = numbers_of(sheet, "propensity", "amount") if "propensity" in sheet.columns else np.full(len(agent), np.nan)
    p = np.where(able, ((1.0 - mine) / np.maximum(1, n - 1))[:, None], 0.0)
    p[rows, agent] = mine
    column = "propensity"
    if told is not None:
        column, total = "propensities", told.sum(axis=1)
        _check(sheet, column, total, np.abs(total - 1.0) <= 1e-3, "add up to {}", "write numbers that add up to 1")
        _check(sheet, column, told.min(axis=1), told.min(axis=1) >= 0.0, "hold {}", "write zero or more")
        p = np.where(np.isnan(told), p, told)
    drawn = p[rows, agent]
    _check(sheet, column, drawn, (drawn > 0.0) & (drawn <= 1.0), "is {}", "write the probability it was chosen with")
    even = np.where(able, 1.0 / n[:, None], 0.0)
    return np.where(np.isnan(drawn)[:, None], even if assume_uniform else np.nan, p)


def _check(sheet: Sheet, column: str, values: Floats, right: Bools, problem: str, remedy: str) -> None:
    """Raise an error that names the first row with a number that is neither right nor missing."""
    wrong = np.flatnonzero(~right & ~np.isnan(values))
    if len(wrong):
        shown = f"{values[wrong[0]]:g}"
        raise InvalidInputError(sheet.place(column, int(wrong[0])), problem.format(shown), remedy)
