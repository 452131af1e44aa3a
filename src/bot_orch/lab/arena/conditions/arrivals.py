"""Outcomes that come late, never, or not in time: ``delayed``, ``censored``, ``dead-agent``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.lab.environments.matrix.model import Matrix, RuntimeOutcomes
from bot_orch.lab.environments.replay.staged import NEVER, Stage
from bot_orch.rng import generator
from bot_orch.survival.causes import Cause

__all__ = ["dead_agent", "delayed", "missing", "patience", "timed_out"]

_MEAN_DELAY = 100
_MISSING = 0.5
_IN_TIME = 0.7  # share of all completions that come within the patience


def delayed(stage: Stage, rng: np.random.Generator) -> Stage:
    """Exponential delays of 100 rounds on average (a twentieth of a short run); the best agent is the slowest."""
    agents = stage.matrix.n_agents
    mean = min(_MEAN_DELAY, max(1.0, stage.rounds / 20))
    slowness = np.empty(agents)
    slowness[stage.ranking] = np.linspace(1.5, 0.5, agents)
    late = rng.exponential(mean * slowness, size=(stage.rounds, agents)).astype(np.int64)
    return replace(stage, late=late)


def missing(stage: Stage, rng: np.random.Generator) -> Stage:
    """Half of the outcomes never come, whoever was asked; they are given up after 100 rounds."""
    lost = rng.random((stage.rounds, 1)) < _MISSING
    late = np.broadcast_to(np.where(lost, NEVER, 0), stage.matrix.reward.shape).copy()
    return replace(stage, late=late, gives_up=min(_MEAN_DELAY, max(1, stage.rounds // 10)))


def patience(stage: Stage, rng: np.random.Generator) -> Stage:
    """Every call is cut off at a patience that 70 % of the calls that complete meet.

    Times are those of the file; without any they are exponential, with means from 0.5 to 2 s, agents in random order.
    """
    matrix, means = stage.matrix, generator("arena patience", stage.matrix.name)
    time_s = matrix.elapsed_s
    if time_s is None or not np.isfinite(time_s).any():
        mean_s = means.permutation(np.geomspace(0.5, 2.0, matrix.n_agents))
        time_s = rng.exponential(mean_s, size=matrix.reward.shape)
    done = time_s if matrix.runtime is None else np.where(matrix.runtime.event == 1.0, time_s, np.nan)
    limit_s = float(np.nanquantile(done, _IN_TIME))
    cut = np.where(np.isfinite(time_s), time_s, 0.0) > limit_s
    return timed_out(replace(stage, matrix=replace(matrix, elapsed_s=np.minimum(time_s, limit_s))), cut)


def dead_agent(stage: Stage, _rng: np.random.Generator) -> Stage:
    """The best agent times out always after a third of the rounds, the second best from the start."""
    cut = np.zeros(stage.matrix.reward.shape, dtype=bool)
    cut[stage.rounds // 3 :, stage.ranking[0]] = True
    if stage.matrix.n_agents > 2:
        cut[:, stage.ranking[1]] = True
    elapsed_s = stage.matrix.elapsed_s
    if elapsed_s is not None and np.isfinite(elapsed_s).any():
        elapsed_s = np.where(cut, np.nanmax(elapsed_s), elapsed_s)
    changed = replace(stage, matrix=replace(stage.matrix, elapsed_s=elapsed_s), phases=(stage.rounds // 3,))
    return timed_out(changed, cut)


def timed_out(stage: Stage, cut: Bools) -> Stage:
    """Agents time out in these cells: no reward is told, and zero is scored."""
    matrix, cut = stage.matrix, cut & stage.matrix.eligible
    changed = replace(
        matrix,
        reward=np.where(cut, 0.0, matrix.reward),
        trials=_zero(matrix.trials, cut),
        true_reward=_zero(matrix.true_reward, cut),
        runtime=_late_runs(matrix, cut),
    )
    return replace(stage, matrix=changed, cut=cut if stage.cut is None else cut | stage.cut)


def _zero(values: Floats | None, cut: Bools) -> Floats | None:
    if values is None:
        return None
    return np.where(cut.reshape(cut.shape + (1,) * (values.ndim - 2)) & np.isfinite(values), 0.0, values)


def _late_runs(matrix: Matrix, cut: Bools) -> RuntimeOutcomes | None:
    runtime = matrix.runtime
    if runtime is None:
        return None
    return replace(runtime, cause=np.where(cut, int(Cause.CENSORED), runtime.cause))
