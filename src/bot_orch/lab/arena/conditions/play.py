"""Play and score a replay under a condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.conditions.attacks import attacked_rounds
from bot_orch.lab.arena.conditions.catalog import CONDITIONS, PLAIN, Attack
from bot_orch.lab.arena.conditions.changes import LONG_ROUNDS
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Order, Replay, Setup
from bot_orch.lab.environments.replay.staged import StagedReplay, unrolled
from bot_orch.lab.harness.live import live
from bot_orch.lab.harness.players import Player, ReplayTrace, play
from bot_orch.lab.harness.replay_metrics import chosen, dollars, score
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
    wanted = CONDITIONS[condition]
    if not applies(condition, matrix):
        raise InvalidInputError(
            "--conditions", f"{condition} needs texts, {matrix.name} has none", "leave it out there"
        )
    plain = Replay(matrix, order, rounds, seeds=range(seeds), **options)
    stages = []
    for seed, stage in enumerate(unrolled(plain)):
        if wanted.attack is not None and matrix.text is not None:
            stage = replace(stage, matrix=replace(stage.matrix, text=matrix.text[plain.rows[:, seed]]))
        rng = generator("arena condition", wanted.draws or condition, matrix.name, seed)
        stages.append(wanted.change(stage, rng))
    return StagedReplay(stages, plain.seeds, **options)


def applies(condition: str, matrix: Matrix) -> bool:
    """Whether a condition can be played on a set: attacks on prompts need texts."""
    return condition == PLAIN or CONDITIONS[condition].attack is None or matrix.text is not None


def play_staged(build: Callable[[Setup], Player], replay: StagedReplay, attack: Attack | None = None) -> ReplayTrace:
    """Play every seed separately, as each has its own delays."""
    traces = []
    for index in range(len(replay.seeds)):
        one = replay.only(index)
        player = live(build(one.setup), one.setup)
        traces.append(play(player if attack is None else attack(player, one), one))
    return ReplayTrace(
        np.concatenate([trace.agent for trace in traces], axis=1),
        np.concatenate([trace.learned for trace in traces], axis=1),
    )


def score_staged(
    build: Callable[[Setup], Player], replay: StagedReplay, attack: Attack | None = None
) -> dict[str, Any]:
    """Play and score.

    With restarts also ``unchanged``, the share of identical choices without restarts; under an attack what it changes,
    see :func:`damage`.
    """
    trace, truth = play_staged(build, replay, attack), replay.scored()
    uses_features = build(replay.only(0).setup).uses_features
    found = score(truth, chosen(truth, trace.agent), feature_time=uses_features)
    if replay.restarts:
        other = play_staged(build, replay.without_restarts())
        found["metrics"]["unchanged"] = (trace.agent == other.agent).mean(axis=0).tolist()
    if attack is not None:
        found["metrics"] |= damage(replay, trace, play_staged(build, replay))
    return found


def damage(replay: StagedReplay, attacked: ReplayTrace, other: ReplayTrace) -> dict[str, list[float]]:
    """Effect of steering against the same rounds without it, per seed.

    ``steered`` and ``unsteered`` are the target's shares of the attacked prompts with and without suffix;
    ``reward_change`` and ``cost_usd_change`` are per task, over all rounds.
    """
    found: dict[str, list[float]] = {"steered": [], "unsteered": [], "reward_change": []}
    for index in range(len(replay.seeds)):
        one = replay.only(index)
        mask, target = attacked_rounds(one)
        found["steered"].append(float((attacked.agent[mask, index] == target).mean()))
        found["unsteered"].append(float((other.agent[mask, index] == target).mean()))
    values = {"reward_change": replay.matrix.reward}
    if replay.matrix.cost_usd is not None:
        values["cost_usd_change"] = dollars(replay)
    for name, cells in values.items():
        change = chosen(replay, attacked.agent)(cells) - chosen(replay, other.agent)(cells)
        found[name] = change.mean(axis=0).tolist()
    return found
