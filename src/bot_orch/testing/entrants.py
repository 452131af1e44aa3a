"""Conformance of an entrant: outcomes of agents that it did not choose must not influence it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.players import ReplayTrace
from bot_orch.rng import generator


def check_sees_only_chosen(run: Callable[[Replay], ReplayTrace], matrix: Matrix, seed: int = 0) -> None:
    """Raise ``AssertionError`` if cells that were never chosen change a single choice.

    Parameters
    ----------
    run
        Plays the replay it is given; it may look at whatever it can reach.

    Examples
    --------
    >>> from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
    >>> from bot_orch.lab.harness.players import play
    >>> from bot_orch.lab.arena.registry import discover_entrants
    >>> matrix, build = gaming_matrix(GamingSettings(tasks=60)), discover_entrants()["linucb"].build
    >>> check_sees_only_chosen(lambda replay: play(build(replay.setup), replay), matrix)
    """
    first = Replay(matrix, seeds=[seed])
    trace = run(first)
    seen = np.zeros(matrix.reward.shape, dtype=bool)
    seen[first.rows[:, 0], trace.agent[:, 0]] = True
    again = run(Replay(with_other_cells(matrix, seen, seed), seeds=[seed]))
    differ = np.flatnonzero(trace.agent[:, 0] != again.agent[:, 0])
    if differ.size:
        raise AssertionError(f"round {differ[0] + 1}: the choice depends on outcomes that were never chosen")


def with_other_cells(matrix: Matrix, keep: Bools, seed: int = 0) -> Matrix:
    """The same matrix with other outcomes in every cell outside ``keep``; eligibility is unchanged."""
    rng = generator("other cells", seed)

    def other(values: Floats | None, drawn: Floats) -> Floats | None:
        if values is None:
            return None
        mask = keep.reshape(keep.shape + (1,) * (values.ndim - 2)) | ~np.isfinite(values)
        return np.where(mask, values, drawn)

    def unit(values: Floats | None) -> Floats:
        return rng.random(() if values is None else values.shape)

    runtime = matrix.runtime
    if runtime is not None:
        time_s = np.where(keep, runtime.time_s, unit(runtime.time_s) * runtime.cutoff_s)
        cause = np.where(keep, runtime.cause, rng.integers(0, 2, runtime.cause.shape))
        runtime = replace(runtime, time_s=time_s, cause=cause)
    reward = other(matrix.reward, unit(matrix.reward))
    assert reward is not None
    return replace(
        matrix,
        reward=reward,
        runtime=runtime,
        trials=other(matrix.trials, unit(matrix.trials)),
        true_reward=other(matrix.true_reward, unit(matrix.true_reward)),
        elapsed_s=other(matrix.elapsed_s, unit(matrix.elapsed_s)),
        cost_usd=other(matrix.cost_usd, unit(matrix.cost_usd)),
        output_embed=other(matrix.output_embed, unit(matrix.output_embed)),
        output_probs=other(matrix.output_probs, unit(matrix.output_probs)),
    )
