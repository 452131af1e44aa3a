"""Changes made by conditions: delays and losses of outcomes, behaviour and arrival of agents, restarts."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.lab.environments.matrix.model import Matrix, RuntimeOutcomes
from bot_orch.lab.environments.replay.staged import NEVER, Stage
from bot_orch.rng import generator
from bot_orch.survival.causes import Cause

_MEAN_DELAY = 100
_MISSING = 0.5
_IN_TIME = 0.7  # share of all completions that come within the patience


def unchanged(stage: Stage, _rng: np.random.Generator) -> Stage:
    """The rounds as they are."""
    return stage


def delayed(stage: Stage, rng: np.random.Generator) -> Stage:
    """Exponential delays of 100 rounds on average (a twentieth of a short run); the best agent is the slowest."""
    agents = stage.matrix.n_agents
    mean = min(_MEAN_DELAY, max(1.0, stage.rounds / 20))
    slowness = np.empty(agents)
    slowness[stage.ranking] = np.linspace(1.5, 0.5, agents)
    late = rng.exponential(mean * slowness, size=(stage.rounds, agents)).astype(np.int64)
    return replace(stage, late=late)


def missing(stage: Stage, rng: np.random.Generator) -> Stage:
    """Half of the outcomes are missing, independently of the agent; they expire after 100 rounds."""
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
    """Agents time out in these cells: the learner sees no reward, and the score is zero."""
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


#: Arrays of a matrix with an axis of agents behind that of tasks.
BY_AGENT = (
    *("reward", "trials", "true_reward", "elapsed_s", "cost_usd", "output_embed", "output_probs", "claims"),
    *("time_s", "cause", "cutoff_s"),
)


def drifting(stage: Stage, _rng: np.random.Generator) -> Stage:
    """Half-way the agents swap places: the best one behaves like the worst, the second best like the second worst
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
    """The best agent joins after a third of the rounds, the median one after two thirds."""
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


LONG_ROUNDS = 20_000
_REDRAWN = 0.1


def restart(stage: Stage, rng: np.random.Generator) -> Stage:
    """Like ``delayed``, and the router restarts from its saved state after one and two thirds of the rounds."""
    return replace(delayed(stage, rng), restarts=(stage.rounds // 3, 2 * stage.rounds // 3))


def long_run(stage: Stage, rng: np.random.Generator) -> Stage:
    """Pass after pass over the same tasks, noise redrawn.

    The replay resamples single trials. Where the file has none, a tenth of the observed outcomes is that of the
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
