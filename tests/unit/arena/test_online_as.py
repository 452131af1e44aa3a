"""Published online selectors against closed forms: posteriors, expected PAR10, imputation, least squares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.entrants.peer_online_as import DegrootePlayer
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.arena.runtime_models import (
    LeastSquaresRuntimes,
    LogLinearRuntimes,
    expected_par10,
    imputed_beyond,
    unit_vectors,
)
from bot_orch.lab.environments.matrix.npz import matrix_from_arrays
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.players import play
from bot_orch.testing import check_sees_only_chosen

NAMES = ("tornede-thompson", "tornede-thompson-bj", "degroote-linear")


def _runtimes(tasks: int = 200, noise: float = 0.1) -> dict[str, np.ndarray]:
    """Two agents; the sign of a feature says which one completes, the other one times out."""
    rng = np.random.default_rng(3)
    x = rng.choice([-1.0, 1.0], tasks)
    good = np.stack([x > 0, x < 0], axis=1)
    time_s = np.where(good, np.exp(1.0 + noise * rng.standard_normal((tasks, 2))), 100.0)
    return {"time_s": time_s, "event": good.astype(int), "cutoff_s": np.array(100.0), "features": x[:, None]}


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 0.5), (4.0, 1.0), (6.0, 0.3), (-2.0, 2.0)])
def test_expected_par10_is_the_integral(mean: float, sd: float) -> None:
    cutoff, law = 60.0, stats.lognorm(s=sd, scale=np.exp(mean))
    inside, _ = integrate.quad(lambda z: np.exp(mean + sd * z) * stats.norm.pdf(z), -10, (np.log(cutoff) - mean) / sd)
    wanted = inside + 10.0 * cutoff * law.sf(cutoff)
    assert expected_par10(np.array(mean), np.array(sd), np.array(cutoff)) == pytest.approx(wanted, rel=1e-6)


def test_expected_par10_does_not_overflow() -> None:
    assert expected_par10(np.array([500.0, -500.0]), np.array([50.0, 50.0]), np.array(10.0)) == pytest.approx(
        [100.0, 0.0]
    )


def test_imputation_is_a_truncated_normal() -> None:
    u = (np.arange(20_000) + 0.5) / 20_000
    drawn = imputed_beyond(np.full(u.shape, 1.0), np.full(u.shape, 2.0), np.full(u.shape, 2.5), u=u)
    law = stats.truncnorm(0.75, np.inf, loc=1.0, scale=2.0)
    assert drawn.min() >= 2.5
    assert drawn.mean() == pytest.approx(law.mean(), abs=1e-2)
    assert imputed_beyond(np.array(0.0), np.array(0.1), np.array(9.0), u=np.array(0.5)) == 9.0, "out of reach"


def test_posterior_is_that_of_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    model, x, y = LogLinearRuntimes(1, 2, 3, ridge=0.5), rng.standard_normal((30, 3)), rng.standard_normal(30)
    for row, value in zip(x, y, strict=True):
        model.learn(row[None], np.array([1]), np.array([value]))
    probe = rng.standard_normal(3)
    mean, sd = model.predict(probe[None])
    inverse = np.linalg.inv(x.T @ x + 0.5 * np.eye(3))
    assert mean[0, 1] == pytest.approx(probe @ inverse @ x.T @ y)
    assert sd[0, 1] == pytest.approx(np.sqrt(probe @ inverse @ probe))
    assert (mean[0, 0], sd[0, 0]) == (0.0, pytest.approx(np.sqrt(2.0 * probe @ probe))), "the other agent: its prior"


def test_least_squares_within_the_range_seen() -> None:
    rng = np.random.default_rng(1)
    model, x, y = LeastSquaresRuntimes(1, 1, 2), rng.random((40, 2)), rng.random(40)
    for row, value in zip(x, y, strict=True):
        model.learn(row[None], np.array([0]), np.array([value]))
    weights = np.linalg.lstsq(np.column_stack([np.ones(40), x]), y, rcond=None)[0]
    assert model.predict(np.array([[0.5, 0.5]]))[0, 0] == pytest.approx(weights @ [1.0, 0.5, 0.5], abs=1e-5)
    edge = [1.0, x[:, 0].max(), x[:, 1].min()]
    assert model.predict(np.array([[9.0, -9.0]]))[0, 0] == pytest.approx(weights @ edge, abs=1e-5), "clipped"


def test_unit_vectors() -> None:
    assert unit_vectors(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0.0, 0.0]]


@pytest.mark.parametrize("name", NAMES)
def test_they_learn_which_agent_completes(name: str) -> None:
    matrix = matrix_from_arrays("toy", _runtimes())
    replay = Replay(matrix, seeds=range(3))
    trace = play(discover_entrants()[name].build(replay.setup), replay)
    solved = matrix.runtime.event[replay.rows, trace.agent]  # type: ignore[union-attr]
    assert solved[100:].mean() > 0.9
    assert solved[:2].mean() < 1.0, "each agent is asked once first"


@pytest.mark.parametrize("name", NAMES)
def test_they_see_only_what_they_chose(name: str) -> None:
    build = discover_entrants()[name].build
    check_sees_only_chosen(lambda replay: play(build(replay.setup), replay), matrix_from_arrays("toy", _runtimes(60)))


def test_a_share_of_epsilon_is_random() -> None:
    matrix = matrix_from_arrays("toy", _runtimes(2000, noise=0.01))
    replay = Replay(matrix, seeds=[0])
    trace = play(DegrootePlayer(replay.setup, epsilon=0.4), replay)
    wrong = 1.0 - matrix.runtime.event[replay.rows, trace.agent].mean()  # type: ignore[union-attr]
    assert wrong == pytest.approx(0.2, abs=0.04), "half of the random choices are wrong"


@pytest.mark.parametrize("name", NAMES)
def test_a_set_without_runtimes_is_refused(name: str) -> None:
    replay = Replay(matrix_from_arrays("toy", {"reward": np.ones((2, 2))}), seeds=[0])
    with pytest.raises(InvalidInputError, match="runtimes"):
        play(discover_entrants()[name].build(replay.setup), replay)
