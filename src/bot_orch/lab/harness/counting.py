"""Count how many published numbers are met, apart for predictions and fits, beside what chance would give.

A cell is *inside* if our mean lies within one published spread of the published mean. That is a weak test where the
spread is a standard deviation over 30 seeds and a strong one where it is a confidence interval, so every count comes
with the number that a perfect reproduction would score: the same method and environment, run again with other seeds.
Beside it stands the number of cells whose z score exceeds 2, which does not depend on what the paper printed after the
plus-minus sign.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

from bot_orch.lab.harness.tables import Basis, ResultRow

__all__ = ["LIMIT", "Agreement", "agreement", "agreement_words", "chance_beyond", "chance_inside"]

#: A cell whose z score exceeds this is counted as off.
LIMIT = 2.0
_NAMES: dict[Basis, str] = {"prediction": "Predicted", "fitted": "Fitted", "selected": "Used to select a reading"}


@dataclass(frozen=True, slots=True)
class Agreement:
    """Published numbers: how many, how many met, how many off, and the two counts of a perfect reproduction."""

    cells: int
    inside: int
    beyond: int
    chance_inside: float
    chance_beyond: float


def agreement(rows: Iterable[ResultRow], basis: Basis | None = None) -> Agreement:
    """Count the rows with a published number of the same data, all or those of one basis."""
    counted = [row for row in rows if row.paper is not None and row.basis != "elsewhere"]
    chosen = [row for row in counted if basis in (None, row.basis)]
    return Agreement(
        len(chosen),
        sum(bool(row.inside) for row in chosen),
        sum(row.z is not None and abs(row.z) > LIMIT for row in chosen),
        math.fsum(chance_inside(row) for row in chosen),
        math.fsum(chance_beyond(row) for row in chosen),
    )


def agreement_words(rows: Sequence[ResultRow]) -> list[str]:
    """One sentence per basis that occurs; empty if nothing of it is published."""
    said = []
    for basis, name in _NAMES.items():
        found = agreement(rows, basis)
        if found.cells:
            said.append(
                f"{name}: {found.inside} of {found.cells} inside (by chance {found.chance_inside:.1f}), "
                f"|z| &gt; {LIMIT:g} in {found.beyond} (by chance {found.chance_beyond:.1f})"
            )
    return said


def chance_inside(row: ResultRow) -> float:
    """Probability that a perfect reproduction lies within one published spread of the published mean.

    Both runs draw seeds from one normal law. The difference of their means has variance s^2 (1/n + 1/m) and the
    published spread is c times a sample deviation of m seeds, so the ratio is a Student t with m - 1 degrees of
    freedom: c = 1 for a standard deviation, t_0.975 / sqrt(m) for a confidence interval.
    """
    if row.paper is None or row.paper.seeds < 2:
        return math.nan
    m = row.paper.seeds
    c = 1.0 if row.paper.spread_is == "sd" else float(stdtrit(m - 1, 0.975)) / math.sqrt(m)
    return _within(c / math.sqrt(1.0 / row.seeds + 1.0 / m), m - 1)


def chance_beyond(row: ResultRow) -> float:
    """Probability that the z score of a perfect reproduction exceeds the limit (Student t, pooled)."""
    if row.paper is None or row.seeds < 2:
        return 0.0
    return 1.0 - _within(LIMIT, row.seeds + row.paper.seeds - 2)


def _within(limit: float, freedom: int) -> float:
    return float(1.0 - 2.0 * stdtr(freedom, -limit))
