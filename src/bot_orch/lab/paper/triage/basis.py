"""Which triage numbers are predictions.

Algorithm 2's history term is not printed. The one used here was selected because it gives the dip of the non-IID
lambda curve and the spread of No-OT, so the non-IID columns of the two methods that contain it are no predictions.
"""

from __future__ import annotations

from collections.abc import Iterable

from bot_orch.lab.harness.tables import Basis

__all__ = ["basis"]


def basis(condition: str, method: str, metrics: Iterable[str]) -> dict[str, Basis]:
    """The metrics that the history term was selected by."""
    return dict.fromkeys(metrics, "selected") if condition == "noniid" and method in ("bot-orch", "no-ot") else {}
