"""P(best) of Beta posteriors: against dense quadrature with SciPy's distribution functions."""

import numpy as np
from scipy.stats import beta

from bot_orch.arrays import allocate
from bot_orch.numerics.beta_best import best_of_betas
from bot_orch.policies.base import Situation
from bot_orch.policies.thompson_beta import ThompsonBeta

LEVELS = np.concatenate([np.logspace(-13, -2, 30), np.linspace(0.01, 0.99, 120)[1:-1], 1.0 - np.logspace(-2, -13, 30)])


def reference(a, b, penalty):
    """Ten Gauss nodes between any two of 180 quantiles of every agent, distribution functions from SciPy."""
    agents = [beta(*each) for each in zip(a, b, strict=True)]
    edges = [np.concatenate([d.ppf(LEVELS), [0.0, 1.0]]) - c for d, c in zip(agents, penalty, strict=True)]
    low = max(d.ppf(1e-13) - c for d, c in zip(agents, penalty, strict=True))
    edge = np.unique(np.concatenate(edges))
    edge = edge[edge >= low]
    x, w = np.polynomial.legendre.leggauss(10)
    node = (edge[:-1, None] + np.diff(edge)[:, None] * 0.5 * (x + 1.0)).ravel()
    weight = (np.diff(edge)[:, None] * 0.5 * w).ravel()
    cdf = np.array([d.cdf(node + c) for d, c in zip(agents, penalty, strict=True)])
    pdf = np.array([d.pdf(node + c) for d, c in zip(agents, penalty, strict=True)])
    return np.array([weight @ (pdf[i] * np.delete(cdf, i, 0).prod(axis=0)) for i in range(len(a))])


def cases():
    """Up to a million outcomes per agent: whole and fractional successes, near ties, certain winners, penalties."""
    rng = np.random.default_rng(4)
    for case in range(48):
        m = int(rng.integers(2, 8))
        n = 10.0 ** rng.uniform(0.0, 6.0, m) * (rng.random(m) < 0.9)
        q = rng.random(m) if case % 3 == 0 else rng.beta(0.1, 0.1, m)
        if case % 3 == 2:
            q = np.clip(rng.random() + 0.02 * rng.normal(size=m), 0.0, 1.0)
        wins = np.round(np.round(n) * q) if case % 2 else n * q
        n = np.round(n) if case % 2 else n
        prior = 2.0 if case % 4 == 3 else 1.0
        yield prior + wins, prior + n - wins, np.zeros(m) if case % 5 else 0.3 * rng.random(m)
    yield np.full(5, 1e6), np.full(5, 1e6), np.zeros(5)
    yield np.array([1.0, 1e6]), np.array([1.0, 1e6]), np.zeros(2)
    yield np.array([1e6 + 1.0, 1e6 + 1.0, 1.0]), np.array([1.0, 2.0, 1.0]), np.zeros(3)
    yield np.array([1.0, 1.0, 1.0]), np.array([1e6 + 1.0, 3e5 + 1.0, 1e6 + 1.5]), np.zeros(3)


def test_errors_stay_below_a_millionth_up_to_a_million_outcomes():
    worst = 0.0
    for a, b, penalty in cases():
        p, expected = best_of_betas(a, b, penalty), reference(a, b, penalty)
        assert abs(expected.sum() - 1.0) < 1e-7
        worst = max(worst, float(np.abs(p - expected).max()))
    assert worst < 1e-6, worst


def test_the_equal_cells_of_earlier_releases_fail_this():
    """The control: 128 equal cells miss a posterior that is much narrower than another one."""
    worst = 0.0
    for a, b, penalty in cases():
        policy = ThompsonBeta(points=128)
        state = allocate(policy.schema(0), (), len(a))
        state["total"][...], state["count"][...] = a - 1.0, a + b - 2.0
        p = policy.choose(state, Situation(1, penalty)).propensities
        worst = max(worst, float(np.abs(p - reference(a, b, penalty)).max()))
    assert worst > 1e-3


def test_rows_of_a_batch_and_masks():
    rng = np.random.default_rng(0)
    a, b = 1.0 + rng.integers(0, 90, (40, 6)), 1.0 + rng.integers(0, 90, (40, 6))
    mask = rng.random((40, 6)) < 0.6
    mask[:, 1] = True
    none = np.zeros((40, 6))
    together = best_of_betas(a, b, none, eligible=mask)
    assert np.all(together[~mask] == 0.0)
    for row in range(40):
        alone = best_of_betas(a[row], b[row], none[row], eligible=mask[row])
        np.testing.assert_allclose(alone, together[row], rtol=0.0, atol=1e-13)
        few = best_of_betas(a[row][mask[row]], b[row][mask[row]], np.zeros(mask[row].sum()))
        np.testing.assert_allclose(alone[mask[row]], few, rtol=0.0, atol=1e-7)


def test_a_penalty_beyond_every_value_leaves_no_chance():
    p = best_of_betas(np.array([3.0, 2.0]), np.array([2.0, 5.0]), np.array([0.0, 1.5]))
    np.testing.assert_allclose(p, [1.0, 0.0], atol=1e-9)
