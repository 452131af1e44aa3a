"""One numerical implementation: a live decision and a row of a batch are the same."""

import numpy as np
import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.numerics.choice import UNSEEN, argmax_ties, draw, mixed_draw, softmax, softmax_scores, ucb_scores
from bot_orch.rng import derive_keys, stream_of, uniform


def test_softmax_of_scores_is_the_softmax_of_their_difference():
    rng = np.random.default_rng(0)
    estimate, penalty = rng.normal(size=(500, 7)) * 10.0, rng.random((500, 7))
    mask = rng.random((500, 7)) < 0.6
    mask[:, 0] = True
    for eta in (0.1, 5.0, 300.0):
        for eligible in (None, mask):
            found = softmax_scores(estimate, penalty, eta, eligible=eligible)
            np.testing.assert_array_equal(found, softmax(eta * (estimate - penalty), eligible))
            np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
            for row in range(0, 500, 7):
                one = softmax_scores(
                    estimate[row], penalty[row], eta, eligible=None if eligible is None else eligible[row]
                )
                assert one.tobytes() == found[row].tobytes()
    assert np.isnan(softmax_scores(np.array([np.nan, 0.0]), np.zeros(2), 1.0)).all()


@pytest.mark.parametrize("m", [2, 6, 7, 8, 20])
@pytest.mark.parametrize("least", [0.0, 0.5, 1.0])
def test_upper_bounds_of_a_batch_are_those_of_its_rows(m, least):
    rng = np.random.default_rng(m)
    n = np.maximum(np.floor(rng.exponential(50.0, (300, m))), least)
    n[::9] = least  # ties
    estimate, penalty = rng.random((300, m)).round(1), rng.random((300, m)).round(1)
    mask = rng.random((300, m)) < 0.7
    mask[:, 0] = True
    for scale in (1.0, 0.3, 1e9):
        for eligible in (None, mask):
            p, bonus = ucb_scores(estimate, n, penalty, scale=scale, eligible=eligible)
            assert (bonus[n == 0.0] == UNSEEN).all()
            for row in range(300):
                only = None if eligible is None else eligible[row]
                one, its = ucb_scores(estimate[row], n[row], penalty[row], scale=scale, eligible=only)
                assert one.tobytes() == p[row].tobytes()
                assert its.tobytes() == bonus[row].tobytes()


def test_scores_without_an_order_have_no_best():
    for bad in ([np.nan, 1.0], [1.0, np.nan], [1.0, np.nan, 2.0]):
        with np.errstate(invalid="ignore"):
            assert np.isnan(argmax_ties(np.array(bad))).all()
            found, _ = ucb_scores(np.array(bad), np.ones(len(bad)), np.zeros(len(bad)), scale=1.0)
        assert np.isnan(found).all()


def test_draws_of_a_batch_are_those_of_its_rows():
    p = np.random.default_rng(1).random((300, 5))
    p[:, 2] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    u = uniform(derive_keys(["draws"], range(300)), 9)
    assert u.tolist() == [stream_of(int(key))(9) for key in derive_keys(["draws"], range(300))]
    assert draw(p, u).tolist() == [int(draw(row, one)) for row, one in zip(p, u, strict=True)]
    mask = np.random.default_rng(2).random((300, 5)) < 0.7
    mask[:, 0] = True
    kept = np.where(mask, p, 0.0)
    for given, eligible in ((p, None), (kept / kept.sum(axis=1, keepdims=True), mask)):
        mixed, agents = mixed_draw(given, u, 0.1, eligible=eligible)
        for row in range(300):
            alone, agent = mixed_draw(given[row], u[row], 0.1, eligible=None if eligible is None else eligible[row])
            assert alone.tobytes() == mixed[row].tobytes()
            assert int(agent) == agents[row]


def test_what_is_no_probability_vector_is_refused():
    for bad in ([0.5, 0.4], [np.nan, 1.0]):
        with pytest.raises(InvalidInputError, match="probabilities that sum to"):
            mixed_draw(np.array(bad), 0.5, 0.02)
