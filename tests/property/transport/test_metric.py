"""Laws of a distance, for every geometry and any measures."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import wasserstein_distance

from bot_orch import transport as tr

QUICK = settings(max_examples=40, deadline=None, derandomize=True)
TREE = tr.TreeLabels((-1, 0, 0, 1), (0.0, 1.0, 2.0, 0.5))
TREE_COST = tuple(map(tuple, np.abs(TREE.atoms[:, None] - TREE.atoms[None]).sum(axis=-1).tolist()))
GEOMETRIES = {
    "scores": tr.Scores(low=-4.0, high=4.0, cells=16),
    "scalars W1": tr.Scalars(cells=16),
    "scalars W2": tr.Scalars(cells=16, order=2),
    "labels": tr.ZeroOneLabels(4),
    "ordered": tr.OrderedLabels((0.0, 1.0, 2.5, 3.0)),
    "tree": TREE,
    "cost": tr.CostLabels(TREE_COST),
    "plane W1": tr.Sliced(dimension=2, cells=4, order=1),
    "plane W2": tr.Sliced(dimension=2, cells=4),
    "space W1": tr.Sliced(dimension=3, cells=4, order=1),
    "space W2": tr.Sliced(dimension=3, cells=4),
    "bures": tr.Bures(2, clouds=True),
    "variances": tr.Bures(2, clouds=True, diagonal=True),
    "cloud W1": tr.CostCloud(2, capacity=6),
    "cloud W2": tr.CostCloud(2, capacity=6, order=2, metric="cityblock"),
}
TIGHT = {"bures": 2e-6, "variances": 2e-7}  # a square root near zero doubles the digits lost

numbers = st.floats(-4.0, 4.0, allow_subnormal=False).map(lambda x: round(x, 6))


@st.composite
def weights(draw, n):
    w = draw(arrays(float, n, elements=st.floats(0.01, 1.0)))
    return w / w.sum()


@st.composite
def measures(draw, geometry):
    if geometry.kind == "labels":
        return tr.Labels(draw(weights(geometry.n_labels)))
    n = draw(st.integers(1, 6))
    if geometry.kind == "samples":
        return tr.Samples(draw(arrays(float, n, elements=numbers)), draw(weights(n)))
    d = geometry.dimension
    return tr.Cloud(draw(arrays(float, (n, d), elements=numbers)), draw(weights(n)))


def moved(measure, shift=0.0, scale=1.0):
    if measure.kind == "samples":
        return tr.Samples(scale * measure.values + shift, measure.weights)
    return tr.Cloud(scale * measure.points + shift, measure.weights)


@pytest.mark.parametrize("name", GEOMETRIES)
@QUICK
@given(data=st.data())
def test_metric_axioms(name, data):
    geometry = GEOMETRIES[name]
    slack = TIGHT.get(name, 1e-9)
    a, b, c = (data.draw(measures(geometry)) for _ in range(3))
    ab, ba = tr.distance(geometry, a, b), tr.distance(geometry, b, a)
    assert ab >= 0.0
    assert tr.distance(geometry, a, a) <= slack
    assert ab == pytest.approx(ba, abs=slack)
    assert tr.distance(geometry, a, c) <= ab + tr.distance(geometry, b, c) + slack


@pytest.mark.parametrize("name", ["scalars W1", "scalars W2", "plane W2", "space W2", "bures", "variances", "cloud W1"])
@QUICK
@given(data=st.data(), shift=st.floats(-3.0, 3.0), scale=st.floats(0.1, 3.0))
def test_translation_and_scaling(name, data, shift, scale):
    geometry = GEOMETRIES[name]
    a, b = data.draw(measures(geometry)), data.draw(measures(geometry))
    w = tr.distance(geometry, a, b)
    slack = TIGHT.get(name, 1e-9)
    assert tr.distance(geometry, moved(a, shift), moved(b, shift)) == pytest.approx(w, abs=slack)
    assert tr.distance(geometry, moved(a, scale=scale), moved(b, scale=scale)) == pytest.approx(
        scale * w, abs=3 * slack
    )
    d = 1 if a.kind == "samples" else geometry.dimension
    assert tr.distance(geometry, a, moved(a, shift)) == pytest.approx(abs(shift) * np.sqrt(d), abs=slack)


@pytest.mark.parametrize("name", GEOMETRIES)
@QUICK
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_permutation_of_agents(name, data, seed):
    geometry = GEOMETRIES[name]
    bank = np.stack([geometry.embed(data.draw(measures(geometry))) for _ in range(4)])
    reference = geometry.embed(data.draw(measures(geometry)))
    order = np.random.default_rng(seed).permutation(4)
    whole = geometry.distances(bank, reference)
    np.testing.assert_allclose(geometry.distances(bank[order], reference), whole[order], atol=TIGHT.get(name, 1e-12))
    np.testing.assert_allclose(geometry.distances(bank[None], reference)[0], whole, atol=TIGHT.get(name, 1e-12))


def exact(a, b, order):
    x, y = (m.values[:, None] if m.kind == "samples" else m.points for m in (a, b))
    cost = ot.dist(x, y, metric="euclidean") ** order
    return max(0.0, float(ot.emd2(a.weights, b.weights, cost))) ** (1.0 / order)


BOUNDED = [name for name, g in GEOMETRIES.items() if g.certificate == "lower_bound"]


@pytest.mark.parametrize("name", BOUNDED)
@QUICK
@given(data=st.data())
def test_certified_lower_bounds(name, data):
    geometry = GEOMETRIES[name]
    a, b = data.draw(measures(geometry)), data.draw(measures(geometry))
    assert tr.distance(geometry, a, b) <= exact(a, b, geometry.order) + TIGHT.get(name, 1e-7)


def test_how_many_are_certified():
    assert len(BOUNDED) == 9
    assert {g.certificate for g in GEOMETRIES.values()} == {"exact", "lower_bound"}


@QUICK
@given(data=st.data(), cells=st.integers(1, 12))
def test_scores_on_the_grid_equal_scipy(data, cells):
    geometry = tr.Scores(low=0.0, high=float(cells), cells=cells, on_grid=True)
    sizes = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 8))
    x, y = (data.draw(arrays(float, n, elements=st.integers(0, cells).map(float))) for n in sizes)
    v = data.draw(weights(len(x)))
    found = tr.distance(geometry, tr.Samples(x, v), tr.Samples(y))
    assert found == pytest.approx(wasserstein_distance(x, y, v), abs=1e-12)


@QUICK
@given(data=st.data(), order=st.sampled_from([1, 2]))
def test_two_halves_are_resolved_exactly(data, order):
    """Quantile functions constant on the cells of a two-cell grid: here the embedding loses nothing."""
    x, y = (data.draw(arrays(float, 2, elements=numbers)) for _ in range(2))
    a, b = tr.Samples(x), tr.Samples(y)
    found = tr.distance(tr.Scalars(cells=2, order=order), a, b)
    reference = np.mean(np.abs(np.sort(x) - np.sort(y)) ** order) ** (1.0 / order)
    assert found == pytest.approx(reference, abs=1e-12)
    if order == 1:
        assert found == pytest.approx(wasserstein_distance(x, y), abs=1e-12)


@pytest.mark.parametrize("name", ["labels", "ordered", "tree", "cost"])
@QUICK
@given(data=st.data())
def test_labels_equal_pot(name, data):
    geometry = GEOMETRIES[name]
    a, b = data.draw(measures(geometry)), data.draw(measures(geometry))
    if name == "cost":
        cost = np.asarray(geometry.cost)
    else:
        cost = np.abs(geometry.atoms[:, None] - geometry.atoms[None]).sum(axis=-1)
    theirs = ot.emd2(a.probabilities, b.probabilities, np.ascontiguousarray(cost))
    assert tr.distance(geometry, a, b) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("name", [n for n, g in GEOMETRIES.items() if g.name not in ("cost_labels", "cost_cloud")])
@QUICK
@given(data=st.data(), n=st.integers(1, 1000))
def test_confidence_distances_are_in_order(name, data, n):
    geometry = GEOMETRIES[name]
    bank = geometry.embed(data.draw(measures(geometry)))[None]
    found = tr.confidence(geometry, bank, geometry.embed(data.draw(measures(geometry))), np.array([float(n)]))
    assert 0.0 <= found.lower[0] <= found.value[0] <= found.upper[0]
    assert found.debiased[0] <= found.value[0]
    if n == 1 and not isinstance(geometry, tr.Scores) and geometry.kind != "labels":
        assert (found.lower[0], found.upper[0]) == (0.0, np.inf)  # one outcome without bounds tells no spread
