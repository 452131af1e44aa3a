"""Verdicts: what a run says about a printed statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from bot_orch.lab.harness.tables import ResultRow

__all__ = ["TheoremClaim", "Verdict", "claim_notes", "claim_rows", "judge"]


class Verdict(Enum):
    """The three verdicts; the value is what ``tables.csv`` holds."""

    HOLDS = 1.0
    CORRECTED = 0.5
    FAILS = 0.0

    @property
    def words(self) -> str:
        """The verdict in words."""
        return {1.0: "holds", 0.5: "holds with a correction", 0.0: "fails as stated"}[self.value]


@dataclass(frozen=True, slots=True)
class TheoremClaim:
    """A statement, the verdict on it, and one sentence with the numbers that decided it."""

    name: str
    verdict: Verdict
    why: str


def judge(*, printed: bool, mended: bool = False) -> Verdict:
    """The verdict from two tests.

    Parameters
    ----------
    printed
        Whether the runs agree with the statement as printed, wherever its assumptions are met.
    mended
        Whether they agree once a hypothesis, a constant or a definition is put right and the conclusion is kept.

    Examples
    --------
    >>> judge(printed=False, mended=True).words
    'holds with a correction'
    """
    if printed:
        return Verdict.HOLDS
    return Verdict.CORRECTED if mended else Verdict.FAILS


def claim_rows(experiment: str, claims: Sequence[TheoremClaim]) -> list[ResultRow]:
    """One ``verdict`` row per claim."""
    return [
        ResultRow(
            experiment,
            experiment,
            "theory",
            method=claim.name,
            lambda_=0.0,
            metric="verdict",
            mean=float(claim.verdict.value),
            std=0.0,
            seeds=1,
        )
        for claim in claims
    ]


def claim_notes(claims: Sequence[TheoremClaim]) -> list[str]:
    """One sentence per claim, the verdict first."""
    return [f"<b>{claim.name}: {claim.verdict.words}.</b> {claim.why}" for claim in claims]
