"""Evidence for judging statements: the numbers printed in the paper, or those of our runs, in one format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from bot_orch.lab.harness.tables import Published, ResultRow

_Key = tuple[str, str, str, float, str]


@dataclass(frozen=True, slots=True)
class Measured:
    """A mean, its standard error, the standard deviation over seeds, and the printed plus-minus value."""

    mean: float
    error: float
    sd: float
    shown: float


class Finding(Enum):
    """The verdicts on an empirical sentence; ``tables.csv`` contains the value."""

    HOLDS = 1.0
    PARTLY = 0.5
    FAILS = 0.0
    OPEN = math.nan

    @property
    def words(self) -> str:
        """The verdict in words."""
        return {"HOLDS": "holds", "PARTLY": "in part", "FAILS": "fails", "OPEN": "open"}[self.name]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and the numbers that decided it."""

    verdict: Finding
    why: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Numbers by experiment, environment, method, lambda and metric."""

    cells: Mapping[_Key, Measured]

    def get(self, experiment: str, environment: str, method: str, *, metric: str, lambda_: float = 0.0) -> Measured:
        """One number; raises a LookupError if there is none."""
        return self.cells[experiment, environment, method, float(lambda_), metric]


def printed(numbers: Mapping[_Key, Published]) -> Evidence:
    """The paper's own tables."""
    return Evidence(
        {key: Measured(p.mean, p.error, p.error * math.sqrt(p.seeds), p.spread) for key, p in numbers.items()}
    )


def ours(rows: Iterable[ResultRow]) -> Evidence:
    """Our runs under the paper's protocol, except those on other splits."""
    return Evidence(
        {
            (row.experiment, row.environment, row.method, float(row.lambda_), row.metric): Measured(
                row.mean, row.std / math.sqrt(row.seeds), row.std, row.std
            )
            for row in rows
            if row.protocol == "paper" and row.basis != "elsewhere"
        }
    )


def z_score(a: Measured, b: Measured) -> float:
    """Difference over its standard error, as if the two were independent."""
    error = math.hypot(a.error, b.error)
    return (a.mean - b.mean) / error if error > 0.0 else math.copysign(math.inf, a.mean - b.mean)


def judged(parts: Iterable[bool]) -> Finding:
    """HOLDS if all parts hold, FAILS if none does, else PARTLY."""
    found = list(parts)
    return Finding.HOLDS if all(found) else Finding.PARTLY if any(found) else Finding.FAILS
