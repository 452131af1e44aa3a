"""Whether the data sets hold what the options of a run are about: dollars, seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.matrix.find import load_matrix

__all__ = ["options_without_effect"]


def options_without_effect(
    paths: Sequence[Path], *, budget_usd: float | None, cost_weight: float, latency_target_s: float | None, signal: str
) -> list[str]:
    """Notes on sets for which an option does nothing; an error where no set has what it needs.

    A budget needs dollars in every set, since its baselines are computed from them.
    """
    notes = [
        f"{path.name}: has rewards, so --signal does nothing there"
        for path in paths
        if signal != "log-uniform" and not load_matrix(path).runtime_only
    ]
    for option, value, what in (
        ("--budget", budget_usd, "cost_usd"),
        ("--cost-weight", cost_weight, "cost_usd"),
        ("--latency-target", latency_target_s, "seconds"),
    ):
        lacking = [path.name for path in paths if value and not _has(path, what)]
        if lacking and (option == "--budget" or len(lacking) == len(paths)):
            column = "cost" if what == "cost_usd" else "seconds"
            remedy = f"add a column {column} (array {'cost_usd' if column == 'cost' else 'latency_s'}), or leave it out"
            raise InvalidInputError(option, f"{lacking[0]} has no {what}", remedy)
        notes += [f"{name}: has no {what}, so {option} does nothing there" for name in lacking]
    return notes


def _has(path: Path, what: str) -> bool:
    matrix = load_matrix(path)
    return (matrix.cost_usd if what == "cost_usd" else matrix.elapsed_s) is not None
