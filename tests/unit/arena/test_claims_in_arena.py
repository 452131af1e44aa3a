"""Claims of a data set reach every player without a flag, and the fixed threshold is there to compare with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import matrix_from_arrays, read_npz, write_npz
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.policies.base import Choice, Feedback, Situation
from bot_orch.policies.uniform import Uniform

R = np.array([[0.0, 1.0, 1.0], [0.5, 0.25, 0.0], [1.0, 0.0, 1.0]])
CLAIM = np.array([[0.5, np.nan, 0.9], [0.25, 0.75, np.nan], [np.nan, np.nan, 1.0]])


class Listening(Uniform):
    """Chooses at random and keeps what it was told."""

    shown: ClassVar[list[Floats | None]] = []
    learned: ClassVar[list[Floats | None]] = []

    def choose(self, state: object, situation: Situation) -> Choice:  # type: ignore[override]
        self.shown.append(situation.claims)
        return super().choose(state, situation)  # type: ignore[arg-type]

    def update(self, state: object, feedback: Feedback) -> None:  # type: ignore[override]
        self.learned.append(feedback.claims)


def _heard(matrix: Matrix, **wanted: bool) -> tuple[Replay, Listening]:
    policy, replay = Listening(), Replay(matrix, "given", seeds=range(2))
    policy.shown.clear()
    policy.learned.clear()
    play(PolicyPlayer(policy, replay.setup, **wanted), replay)
    return replay, policy


def test_a_claim_array_is_shown_before_the_choice_and_learned_with_after_it() -> None:
    matrix = matrix_from_arrays("toy", {"reward": R, "claim": CLAIM})
    replay, policy = _heard(matrix)
    np.testing.assert_array_equal(np.array(policy.shown), CLAIM[replay.rows])
    np.testing.assert_array_equal(np.array(policy.learned), CLAIM[replay.rows])
    assert _heard(matrix, claims=False)[1].shown == [None] * 3
    assert _heard(matrix_from_arrays("toy", {"reward": R}))[1].shown == [None] * 3


def test_models_claim_their_largest_probability_and_people_nothing() -> None:
    probs = np.array([[[1.0, 3.0], [0.5, 0.5]], [[0.9, 0.1], [0.0, 0.0]], [[0.2, 0.8], [0.0, 1.0]]])
    counts = np.full((3, 2), 5)
    given = {"reward": R, "model_probs": probs, "human_counts": counts}
    claims = matrix_from_arrays("toy", given).claims
    np.testing.assert_allclose(claims, [[0.75, 0.5, np.nan], [0.9, np.nan, np.nan], [0.8, 1.0, np.nan]])
    np.testing.assert_array_equal(matrix_from_arrays("toy", given | {"claim": CLAIM}).claims, CLAIM)
    assert matrix_from_arrays("toy", given | {"claim": np.full((3, 3), np.nan)}).claims is None
    assert matrix_from_arrays("toy", {"reward": R, "human_counts": counts}).claims is None


@pytest.mark.parametrize(
    ("claim", "message"), [(CLAIM[:2], r"claim: has shape \(2, 3\)"), (2 * CLAIM, "claim: ranges from 0.5 to 2")]
)
def test_a_malformed_claim_is_refused(claim: Floats, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        matrix_from_arrays("toy", {"reward": R, "claim": claim})


def test_claims_survive_a_file(tmp_path: Path) -> None:
    write_npz(tmp_path / "toy.npz", matrix_from_arrays("toy", {"reward": R, "claim": CLAIM}))
    np.testing.assert_array_equal(read_npz(tmp_path / "toy.npz").claims, CLAIM)


def _deferral(rounds: int = 400) -> Matrix:
    """A model that is right as often as it says, and a person who is right nine times in ten."""
    rng = np.random.default_rng(8)
    claim = rng.uniform(0.3, 1.0, rounds)
    reward = np.stack([rng.random(rounds) < claim, rng.random(rounds) < 0.9], axis=1).astype(float)
    claims = np.stack([claim, np.full(rounds, np.nan)], axis=1)
    return Matrix("deferral", ("model", "person"), reward, claims=claims)


def _earned(name: str, matrix: Matrix) -> float:
    replay = Replay(matrix, seeds=range(3))
    trace = play(discover_entrants()[name].build(replay.setup), replay)
    return float(np.take_along_axis(matrix.reward[replay.rows], trace.agent[..., None], axis=-1).mean())


def test_the_threshold_on_the_claim_defers_to_the_person() -> None:
    matrix = _deferral()
    assert _earned("claim-threshold", matrix) > _earned("thompson-beta", matrix) > 0.8
    replay = Replay(matrix, seeds=range(3))
    trace = play(discover_entrants()["claim-threshold"].build(replay.setup), replay)
    np.testing.assert_array_equal(trace.agent == 0, matrix.claims[replay.rows, 0] >= 0.9)  # type: ignore[index]
    silent = Replay(replace(matrix, claims=None), seeds=range(3))
    nobody = play(discover_entrants()["claim-threshold"].build(silent.setup), silent)
    assert 0.4 < nobody.agent.mean() < 0.6
