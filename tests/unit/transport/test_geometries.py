"""Every geometry against a closed form, SciPy or POT."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from scipy.stats import norm, wasserstein_distance

from bot_orch import transport as tr
from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.rng import generator


def test_scores_on_the_grid_agree_with_scipy():
    geometry = tr.Scores(cells=20, on_grid=True)
    rng = generator("scores")
    for _ in range(20):
        x, y = rng.integers(0, 21, 15) / 20, rng.integers(0, 21, 7) / 20
        w = rng.dirichlet(np.ones(15))
        found = tr.distance(geometry, tr.Samples(x, w), tr.Samples(y))
        assert found == pytest.approx(wasserstein_distance(x, y, w), abs=1e-12)
    assert geometry.certificate == "exact"


def test_scores_off_the_grid_are_refused_only_if_promised():
    tr.Scores(cells=10).embed_outcome(0.123)
    with pytest.raises(InvalidInputError, match="grid"):
        tr.Scores(cells=10, on_grid=True).embed_outcome(0.123)
    with pytest.raises(InvalidInputError, match="outside"):
        tr.Scores().embed_outcome(1.5)


@pytest.mark.parametrize("order", [1, 2])
def test_scalars_of_a_shifted_and_scaled_normal(order):
    levels = (np.arange(20000) + 0.5) / 20000
    x = norm.ppf(levels)
    geometry = tr.Scalars(order=order)
    assert tr.distance(geometry, tr.Samples(x), tr.Samples(x + 2.0)) == pytest.approx(2.0, abs=1e-12)
    scaled = tr.distance(geometry, tr.Samples(x), tr.Samples(2.0 * x))
    exact = np.sqrt(2.0 / np.pi) if order == 1 else 1.0
    assert scaled == pytest.approx(exact, rel=0.01)
    assert scaled <= exact + 1e-3


def test_labels_agree_with_each_other_and_with_pot():
    rng = generator("labels")
    k = 5
    places = np.cumsum(rng.random(k))
    line = np.abs(places[:, None] - places[None])
    tree = tr.TreeLabels((-1, 0, 0, 1, 1), (0.0, 1.0, 2.0, 0.5, 0.25))
    atoms = tree.atoms
    tree_cost = np.abs(atoms[:, None] - atoms[None]).sum(axis=-1)
    cases = [
        (tr.ZeroOneLabels(k), 1.0 - np.eye(k)),
        (tr.OrderedLabels(tuple(places)), line),
        (tree, tree_cost),
    ]
    for geometry, cost in cases:
        general = tr.CostLabels(tuple(map(tuple, cost)))
        p, q = rng.dirichlet(np.ones(k), 2)
        exact = ot.emd2(p, q, cost)
        assert tr.distance(geometry, tr.Labels(p), tr.Labels(q)) == pytest.approx(exact, abs=1e-12)
        assert tr.distance(general, tr.Labels(p), tr.Labels(q)) == pytest.approx(exact, abs=1e-12)
        np.testing.assert_allclose(geometry.probabilities(geometry.embed(tr.Labels(p))), p, atol=1e-12)


def test_w2_of_labels_is_a_root():
    cost = ((0.0, 3.0), (3.0, 0.0))
    w = tr.distance(tr.CostLabels(cost, order=2), tr.Labels([1.0, 0.0]), tr.Labels([0.0, 1.0]))
    assert w == pytest.approx(3.0, abs=1e-12)


@pytest.mark.parametrize("d", [2, 3, 7])
@pytest.mark.parametrize("order", [1, 2])
def test_sliced_frames_are_tight(d, order):
    geometry = tr.Sliced(dimension=d, order=order)
    frame = geometry.frame
    np.testing.assert_allclose(frame @ frame.T, np.eye(d) * geometry.n_tracks / d, atol=1e-12)
    x = generator("cloud", d).normal(size=(30, d))
    v = np.arange(1.0, d + 1.0)
    w = tr.distance(geometry, tr.Cloud(x), tr.Cloud(x + v))
    if order == 2:
        assert w == pytest.approx(np.linalg.norm(v), abs=1e-10)
    else:
        assert w <= np.linalg.norm(v) + 1e-12


def test_sliced_w2_agrees_with_pot_along_the_same_directions():
    rng = generator("pot sliced")
    x, y = rng.normal(size=(16, 3)), rng.normal(size=(16, 3)) + 1.0
    geometry = tr.Sliced(dimension=3, cells=4096)
    theirs = ot.sliced_wasserstein_distance(x, y, projections=geometry.frame, p=2) * np.sqrt(3)
    assert tr.distance(geometry, tr.Cloud(x), tr.Cloud(y)) == pytest.approx(theirs, rel=2e-3)


def test_gaussians_agree_with_pot():
    rng = generator("bures")
    a, b = rng.normal(size=(2, 4, 4))
    s, t = a @ a.T, b @ b.T
    m, n = rng.normal(size=(2, 4))
    mine = tr.distance(tr.Bures(4), tr.Gaussian(m, s), tr.Gaussian(n, t))
    assert mine == pytest.approx(ot.gaussian.bures_wasserstein_distance(m, n, s, t), abs=1e-10)
    u, v = rng.random((2, 4))
    exact = np.sqrt(((m - n) ** 2).sum() + ((np.sqrt(u) - np.sqrt(v)) ** 2).sum())
    for geometry in (tr.Bures(4), tr.Bures(4, diagonal=True)):
        assert tr.distance(geometry, tr.Gaussian(m, u), tr.Gaussian(n, v)) == pytest.approx(exact, abs=1e-7)


def test_small_clouds_agree_with_pot_equal_or_not():
    rng = generator("clouds")
    x, y, z = rng.normal(size=(6, 2)), rng.normal(size=(6, 2)), rng.normal(size=(4, 2))
    for order in (1, 2):
        geometry = tr.CostCloud(2, capacity=6, order=order)
        for other, weights in ((y, None), (z, None), (y, rng.dirichlet(np.ones(6)))):
            b = np.full(len(other), 1 / len(other)) if weights is None else weights
            cost = ot.dist(x, other, metric="euclidean") ** order
            exact = ot.emd2(np.full(6, 1 / 6), b, cost) ** (1 / order)
            found = tr.distance(geometry, tr.Cloud(x), tr.Cloud(other, weights))
            assert found == pytest.approx(exact, abs=1e-12)


def test_unequal_clouds_say_which_extra_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ot", None)
    geometry = tr.CostCloud(1, capacity=3)
    with pytest.raises(MissingExtraError, match="transport"):
        tr.distance(geometry, tr.Cloud([[0.0], [1.5]]), tr.Cloud([[0.25], [1.0], [2.0]]))


def test_the_core_imports_neither_pot_nor_an_optimiser():
    import subprocess
    import sys

    code = (
        "import sys, bot_orch.transport as t; t.distance(t.Scores(), t.Samples([0.1]), t.Samples([0.2]));"
        "print([m for m in ('ot', 'scipy.optimize') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_bad_parameters_are_refused():
    for build in (
        lambda: tr.Scores(low=1.0, high=0.0),
        lambda: tr.Scalars(order=3),
        lambda: tr.Scalars(cells=1),
        lambda: tr.ZeroOneLabels(1),
        lambda: tr.OrderedLabels((1.0, 0.0)),
        lambda: tr.TreeLabels((1, 0), (1.0, 1.0)),
        lambda: tr.TreeLabels((-1, 2, 1), (0.0, 1.0, 1.0)),
        lambda: tr.Bures(2, shrinkage=2.0),
        lambda: tr.CostCloud(0),
        lambda: tr.Sliced(dimension=0),
        lambda: tr.CostLabels(((0.0, 1.0), (1.0, 0.5))),
        lambda: tr.ZeroOneLabels(3).embed_outcome(5),
        lambda: tr.ZeroOneLabels(3).embed_outcome([0.2, 0.2, 0.2]),
        lambda: tr.Sliced(dimension=3).embed_outcome([1.0, 2.0]),
        lambda: tr.CostCloud(1, capacity=1).embed(tr.Cloud([[0.0], [1.0]])),
    ):
        with pytest.raises(InvalidInputError):
            build()


def test_shrinkage_makes_bures_approximate():
    assert tr.Bures(8, clouds=True).certificate == "lower_bound"
    assert tr.Bures(2, shrinkage=0.1, clouds=True).certificate == "approximate"
