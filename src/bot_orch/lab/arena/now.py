"""What the user does now: the row ``now`` that every policy is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.registry import BASELINES, BUDGET_BASELINES, discover_entrants
from bot_orch.lab.environments.matrix.find import load_matrix
from bot_orch.lab.environments.matrix.model import Matrix

__all__ = ["NOW", "baseline_policy", "current_agent"]

#: The row of the agent that stands for what the user does now.
NOW = "now"


def current_agent(matrix: Matrix, wanted: str | None) -> tuple[str, str]:
    """The agent that takes every task now, and why it is taken for that.

    That named by the user. Without a name, the most expensive agent where dollars are known, since sending everything
    to the largest is what a router replaces; else the first agent of the file.

    Examples
    --------
    >>> toy = Matrix("toy", ("small", "large"), np.ones((1, 2)), cost_usd=np.array([[1.0, 3.0]]))
    >>> current_agent(toy, None)
    ('large', 'the most expensive agent')
    >>> current_agent(toy, "small")
    ('small', 'named by --baseline')
    """
    if wanted is not None and wanted in matrix.agents:
        return wanted, "named by --baseline"
    if matrix.cost_usd is not None:
        known = np.isfinite(matrix.cost_usd) & matrix.eligible
        count = known.sum(axis=0)
        mean = np.where(count > 0, np.where(known, matrix.cost_usd, 0.0).sum(axis=0) / np.maximum(count, 1), -1.0)
        if mean.max() > mean[mean >= 0.0].min(initial=np.inf):
            return matrix.agents[int(np.argmax(mean))], "the most expensive agent"
    return matrix.agents[0], "the first agent of the file"


def baseline_policy(paths: Sequence[Path], wanted: str | None, *, budget: bool) -> tuple[str | None, list[str]]:
    """The policy or computed baseline that ``--baseline`` names, None if it names an agent; and notes.

    A name that is neither is refused.
    """
    if wanted is None:
        return None, []
    without = [path for path in paths if wanted not in load_matrix(path).agents]
    if len(without) < len(paths):
        return None, [f"{path.name}: has no agent {wanted!r}; compared with the default baseline" for path in without]
    if wanted in BASELINES or wanted in discover_entrants() or (budget and wanted in BUDGET_BASELINES):
        return wanted, []
    known = load_matrix(paths[0]).agents
    few = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "")
    remedy = f"name an agent ({few}) or a policy of bot-orch arena --list-policies"
    raise InvalidInputError("--baseline", f"no agent and no policy {wanted!r}", remedy)
