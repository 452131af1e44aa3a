"""A decision of another router, import options, and parsers whose errors name the cell."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.sheet import MISSING

#: The value of ``--reward`` that makes a completed call worth 1 and a failed one 0.
SUCCESS = "success"
_TRUE, _FALSE = {"true", "1", "1.0", "yes"}, {"false", "0", "0.0", "no"}


@dataclass(frozen=True, slots=True)
class ImportPlace:
    """A row of a file, for errors; ``comma`` says that numbers are written with a decimal comma."""

    file: str
    row: int
    _: KW_ONLY
    comma: bool = False

    def error(self, column: str, problem: str, remedy: str) -> InvalidInputError:
        """An error that names file, row, column and remedy."""
        return InvalidInputError(f"{self.file}: row {self.row}: {column}", problem, remedy)

    def number(self, column: str, value: Any, *, low: float = -math.inf, high: float = math.inf) -> float | None:
        """Parse a finite number within bounds; None for an empty cell."""
        if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
            return None
        bounds = "" if low == -math.inf else f", {low:g} or more" if high == math.inf else f" in [{low:g}, {high:g}]"
        try:
            if not isinstance(value, str | int | float):
                raise ValueError
            found = float(value.replace(",", ".") if self.comma and isinstance(value, str) else value)
        except (ValueError, OverflowError):
            raise self.error(column, f"is {_shown(value)}", f"write a number{bounds}") from None
        if not (math.isfinite(found) and low <= found <= high):
            raise self.error(column, f"is {_shown(value)}", f"write a number{bounds}")
        return found

    def flag(self, column: str, value: Any) -> bool | None:
        """Parse a boolean; None for an empty cell."""
        if value is None or value == "":
            return None
        word = str(value).lower()
        if word not in _TRUE | _FALSE:
            raise self.error(column, f"is {_shown(value)}", "write true or false")
        return word in _TRUE

    def text(self, column: str, value: Any) -> str:
        """Parse a text; empty if missing. Numbers keep their spelling."""
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.error(column, f"is {_shown(value)}", "write a text")
        if isinstance(value, str) and not value.isprintable():
            raise self.error(column, f"is {_shown(value)}", "remove line breaks and control characters")
        return str(value)

    def time_us(self, column: str, value: Any) -> int | None:
        """Microseconds since 1970, of an ISO date or of seconds."""
        if value is None or value == "":
            return None
        try:
            seconds = float(value)
        except (ValueError, TypeError, OverflowError):
            seconds = self._iso(column, value)
        if not 0.0 <= seconds < 1e11:
            raise self.error(
                column, f"is {_shown(value)}", "write seconds since 1970, or a date such as 2026-01-31T12:00Z"
            )
        return round(seconds * 1e6)

    def _iso(self, column: str, value: Any) -> float:
        try:
            when = datetime.fromisoformat(value)
            return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, OverflowError):
            remedy = "write seconds since 1970, or a date such as 2026-01-31T12:00Z"
            raise self.error(column, f"is {_shown(value)}", remedy) from None

    def object(self, column: str, value: Any) -> Mapping[str, Any]:
        """Parse a JSON object, or a text that contains one; empty if missing."""
        if value is None or value == "":
            return {}
        found = self.json(column, value) if isinstance(value, str) else value
        if not isinstance(found, Mapping):
            raise self.error(column, f"is {_shown(value)}", "write an object of JSON")
        return found

    def json(self, column: str, text: str) -> Any:
        """Parse the text of a column as JSON."""
        try:
            return parse_json(text)
        except ValueError as error:
            raise self.error(column, f"is not JSON ({error})", "repair or remove it") from None


@dataclass(slots=True)
class Foreign:
    """One decision of another router. Missing values are None or empty; agent names are strings."""

    place: ImportPlace
    agent: str
    _: KW_ONLY
    reward: float | None = None
    propensity: float | None = None
    propensities: dict[str, float] | None = None
    eligible: tuple[str, ...] = ()
    features: tuple[float, ...] | dict[str, float] = ()
    decision_id: str = ""
    task_id: str = ""
    kind: str = ""
    by: str = ""
    time_us: int | None = None
    elapsed_s: float | None = None
    completed: bool = True
    reason: str = ""
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to read a file.

    Parameters
    ----------
    columns
        Our name of a column, and what the file calls it.
    reward
        Where the reward is: a column, a key of the metadata, a score, or ``success``.
    range_
        The lowest and the highest reward (or cost) of the file; rewards are rescaled to [0, 1].
    agents
        Names of the agents, in the order of the numbers that the file calls them by (VW).
    assume_uniform
        Rows without a propensity were drawn uniformly at random.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    reward: str | None = None
    range_: tuple[float, float] = (0.0, 1.0)
    _: KW_ONLY
    agents: tuple[str, ...] = ()
    assume_uniform: bool = False

    def __post_init__(self) -> None:
        low, high = self.range_
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidInputError("--range", f"is {low:g} {high:g}", "pass the lowest and the highest reward")

    def scaled(self, place: ImportPlace, column: str, value: float | None, *, cost: bool = False) -> float | None:
        """Scale a reward, or with ``cost`` a cost, from the file's range to [0, 1]."""
        if value is None:
            return None
        low, high = self.range_
        if not low <= value <= high:
            what = "costs" if cost else "rewards"
            remedy = f"pass --range LOW HIGH, the bounds of the {what}"
            raise place.error(column, f"is {value:g}, outside of {low:g} to {high:g}", remedy)
        return (high - value if cost else value - low) / (high - low)


@dataclass(slots=True)
class Reader:
    """Collects columns that were not read, and notes for the user."""

    ignored: dict[str, None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def ignore(self, names: Any) -> None:
        """Remember columns that were not read, in the order of the file."""
        self.ignored.update(dict.fromkeys(str(name) for name in names))


def parse_json(text: str) -> Any:
    """Parse JSON; raises a one-line :class:`ValueError` if it is invalid.

    >>> parse_json("[1, null]")
    [1, None]
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
