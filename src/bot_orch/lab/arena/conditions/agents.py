"""Agents that change, and agents that join: ``drifting``, ``cold-start``."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.staged import Stage

__all__ = ["cold_start", "drifting"]

#: Arrays of a matrix with an axis of agents behind that of tasks.
BY_AGENT = (
    *("reward", "trials", "true_reward", "elapsed_s", "cost_usd", "output_embed", "output_probs", "claims"),
    *("time_s", "cause", "cutoff_s"),
)


def drifting(stage: Stage, _rng: np.random.Generator) -> Stage:
    """Half-way the agents change places: the best one does what the worst did, the second best what the second worst
    did, and so on, with all that comes with it (times, dollars, outputs, claims).
    """
    half, matrix = stage.rounds // 2, stage.matrix
    source = np.empty(matrix.n_agents, dtype=np.int64)
    source[stage.ranking] = stage.ranking[::-1]
    changed = _moved(matrix, half, source)
    if matrix.runtime is not None:
        changed["runtime"] = replace(matrix.runtime, **_moved(matrix.runtime, half, source))
    return replace(stage, matrix=replace(matrix, **changed), phases=(half,))


def cold_start(stage: Stage, _rng: np.random.Generator) -> Stage:
    """The best agent joins after a third of the rounds, the middling one after two thirds."""
    reward, ranking = stage.matrix.reward.copy(), stage.ranking
    reward[: stage.rounds // 3, ranking[0]] = np.nan
    if stage.matrix.n_agents > 3:
        reward[: 2 * stage.rounds // 3, ranking[len(ranking) // 2]] = np.nan
    nobody = ~np.isfinite(reward).any(axis=1)
    reward[nobody] = stage.matrix.reward[nobody]  # a task that only newcomers can take
    return replace(stage, matrix=replace(stage.matrix, reward=reward), phases=(stage.rounds // 3,))


def _moved(of: Matrix | Any, half: int, source: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(of):
        values = getattr(of, field.name)
        if field.name in BY_AGENT and isinstance(values, np.ndarray):
            found[field.name] = np.concatenate([values[:half], values[half:, source]])
    return found
