"""Broken variants that the arena's checks must catch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bot_orch.arrays import Floats
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay, RoundContext, RoundOutcome
from bot_orch.lab.harness.players import Pick, Player, PolicyPlayer, ReplayTrace, play
from bot_orch.lab.harness.replay_metrics import baseline, chosen, score
from bot_orch.policies.registry import make_policy
from bot_orch.testing.entrants import check_sees_only_chosen

MATRIX = gaming_matrix(GamingSettings(tasks=80, agents=6))


class Peeker(Player):
    """Looks up the rewards of the task in a matrix it should not have."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        return Pick(np.argmax(self._replay.matrix.reward[self._replay.rows[before.t - 1]], axis=-1))

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        pass


class RevealingReplay(Replay):
    """Gives the rewards away as features."""

    def before(self, t: int) -> RoundContext:
        return replace(super().before(t), context=self.matrix.reward[self.rows[t]])


class TrustsFeatures(Player):
    """Chooses the agent whose feature is largest: harmless unless features are rewards."""

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        assert before.context is not None
        return Pick(np.argmax(before.context, axis=-1))

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        pass


def _revealing(replay: Replay) -> ReplayTrace:
    return play(TrustsFeatures(), RevealingReplay(replay.matrix, replay.order, replay.rounds, seeds=replay.seeds))


def test_a_policy_that_peeks_at_unchosen_cells_is_caught() -> None:
    with pytest.raises(AssertionError, match="never chosen"):
        check_sees_only_chosen(lambda replay: play(Peeker(replay), replay), MATRIX)


def test_a_replay_that_reveals_rewards_before_the_choice_is_caught() -> None:
    with pytest.raises(AssertionError, match="never chosen"):
        check_sees_only_chosen(_revealing, MATRIX)


def test_the_same_players_pass_when_the_replay_is_honest() -> None:
    check_sees_only_chosen(lambda replay: play(TrustsFeatures(), replay), MATRIX)
    check_sees_only_chosen(
        lambda replay: play(PolicyPlayer(make_policy("thompson-beta"), replay.setup), replay), MATRIX
    )


def test_asking_for_a_second_cell_is_refused() -> None:
    replay = Replay(MATRIX, seeds=[0])
    replay.before(0)
    replay.after(0, np.array([0]))
    with pytest.raises(RuntimeError, match="one cell, once"):
        replay.after(0, np.array([1]))


def _check_normalisation(normalised: dict[str, Floats]) -> None:
    """What any normalisation must satisfy: random is 0, the best single agent 1."""
    assert np.allclose(normalised["random"], 0.0), "random is not 0"
    assert np.allclose(normalised["best-single"], 1.0), "the best single agent is not 1"


def test_a_wrong_normalisation_is_caught() -> None:
    matrix = Matrix("toy", ("a", "b"), np.random.default_rng(0).random((50, 2)) * [0.4, 0.8])
    replay = Replay(matrix, rounds=30, seeds=range(6))
    rewards = {name: baseline(replay, name)(matrix.reward).mean(axis=0) for name in ("random", "best-single", "oracle")}
    ours = {name: np.mean(score(replay, baseline(replay, name))["metrics"]["normalised"]) for name in rewards}
    _check_normalisation(ours)
    by_oracle = {
        name: (value - rewards["random"]) / (rewards["oracle"] - rewards["random"]) for name, value in rewards.items()
    }
    whole = matrix.reward.mean()  # the mean over all tasks instead of the tasks played
    elsewhere = {name: (value - whole) / (matrix.reward.mean(axis=0).max() - whole) for name, value in rewards.items()}
    for wrong in (by_oracle, elsewhere, {name: value / rewards["best-single"] for name, value in rewards.items()}):
        with pytest.raises(AssertionError):
            _check_normalisation(wrong)


def test_unpaired_seeds_are_caught() -> None:
    replay, same = (Replay(MATRIX, seeds=[4, 7]) for _ in range(2))
    assert np.array_equal(replay.rows, same.rows)
    other = Replay(replace(MATRIX, name="renamed"), seeds=[4, 7])
    assert not np.array_equal(replay.rows, other.rows), "the comparison can fail"
    agent = np.zeros(replay.rows.shape, dtype=int)
    assert score(replay, chosen(replay, agent)) == score(same, chosen(same, agent))
