"""The run itself: ``restart`` and ``long``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bot_orch.lab.arena.conditions.arrivals import delayed
from bot_orch.lab.environments.replay.staged import Stage

__all__ = ["LONG_ROUNDS", "long_run", "restart"]

LONG_ROUNDS = 20_000
_REDRAWN = 0.1


def restart(stage: Stage, rng: np.random.Generator) -> Stage:
    """As ``delayed``, and after one and two thirds of the rounds the router is started again from its saved state."""
    return replace(delayed(stage, rng), restarts=(stage.rounds // 3, 2 * stage.rounds // 3))


def long_run(stage: Stage, rng: np.random.Generator) -> Stage:
    """Pass after pass over the same tasks, noise redrawn.

    Single trials are drawn anew by the replay. Where the file has none, a tenth of the outcomes told is that of the
    same agent on another task, and times vary by 20 %; what the file says is scored.
    """
    matrix, reward = stage.matrix, stage.matrix.reward
    if matrix.runtime is not None and matrix.runtime_only:
        noise = np.exp(0.2 * rng.normal(size=reward.shape))
        time_s = np.minimum(matrix.runtime.time_s * noise, matrix.runtime.cutoff_s)
        return replace(stage, matrix=replace(matrix, runtime=replace(matrix.runtime, time_s=time_s)))
    if matrix.trials is not None:
        return stage
    other = rng.integers(stage.rounds, size=reward.shape)
    drawn = np.take_along_axis(reward, other, axis=0)
    swap = (rng.random(reward.shape) < _REDRAWN) & np.isfinite(drawn) & np.isfinite(reward)
    return replace(stage, matrix=replace(matrix, reward=np.where(swap, drawn, reward)), truth=reward)
