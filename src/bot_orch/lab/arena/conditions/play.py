"""Play and score a replay under a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bot_orch.lab.arena.conditions.catalog import CONDITIONS
from bot_orch.lab.arena.conditions.changes import LONG_ROUNDS
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Order, Replay, Setup
from bot_orch.lab.environments.replay.staged import StagedReplay, unrolled
from bot_orch.lab.harness.live import live
from bot_orch.lab.harness.players import Player, ReplayTrace, play
from bot_orch.lab.harness.replay_metrics import chosen, score
from bot_orch.rng import generator


def rounds_under(condition: str, asked: int | None, rounds: int) -> int:
    """Number of rounds of a condition: for ``long`` 20 000, or ten times the requested number, else ``rounds``.

    Examples
    --------
    >>> rounds_under("long", None, 500), rounds_under("long", 30, 30), rounds_under("delayed", None, 500)
    (20000, 300, 500)
    """
    if condition != "long":
        return rounds
    return 10 * asked if asked else LONG_ROUNDS


def staged(matrix: Matrix, condition: str, order: Order, *, rounds: int, seeds: int, **options: Any) -> StagedReplay:
    """The replay of a matrix under a condition, the same for every policy."""
    plain = Replay(matrix, order, rounds, seeds=range(seeds), **options)
    wanted_change = CONDITIONS[condition]
    stages = [
        wanted_change.change(stage, generator("arena condition", wanted_change.draws or condition, matrix.name, seed))
        for seed, stage in enumerate(unrolled(plain))
    ]
    return StagedReplay(stages, plain.seeds, **options)


def play_staged(build: Callable[[Setup], Player], replay: StagedReplay) -> ReplayTrace:
    """Play every seed separately, as each has its own delays."""
    traces = []
    for index in range(len(replay.seeds)):
        one = replay.only(index)
        traces.append(play(live(build(one.setup), one.setup), one))
    return ReplayTrace(
        np.concatenate([trace.agent for trace in traces], axis=1),
        np.concatenate([trace.learned for trace in traces], axis=1),
    )


def score_staged(build: Callable[[Setup], Player], replay: StagedReplay) -> dict[str, Any]:
    """Play and score; with restarts also ``unchanged``, the share of identical choices without restarts."""
    trace, truth = play_staged(build, replay), replay.scored()
    uses_features = build(replay.only(0).setup).uses_features
    found = score(truth, chosen(truth, trace.agent), feature_time=uses_features)
    if replay.restarts:
        other = play_staged(build, replay.without_restarts())
        found["metrics"]["unchanged"] = (trace.agent == other.agent).mean(axis=0).tolist()
    return found
