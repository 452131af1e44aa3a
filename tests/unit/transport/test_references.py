"""Barycenters: true ones, streamed as well as computed at once."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import ot
import pytest

from bot_orch import transport as tr
from bot_orch.arrays import decode, encode
from bot_orch.errors import InvalidInputError
from bot_orch.rng import generator


def objective(geometry, e, center, weights, power):
    return float(weights @ geometry.distances(e, center) ** power)


def random_measures(geometry, rng, count):
    if geometry.kind == "labels":
        return [tr.Labels(p) for p in rng.dirichlet(np.ones(geometry.n_labels), count)]
    if geometry.kind == "cloud":
        return [tr.Cloud(rng.normal(size=(5, geometry.dimension)) + rng.normal()) for _ in range(count)]
    if geometry.kind == "gaussian":
        roots = rng.normal(size=(count, geometry.dimension, geometry.dimension))
        return [tr.Gaussian(rng.normal(size=geometry.dimension), a @ a.T) for a in roots]
    return [tr.Samples(np.sort(rng.random(5)) ** rng.uniform(0.5, 2.0)) for _ in range(count)]


LINE = tuple(tuple(float(abs(i - j)) for j in range(4)) for i in range(4))
GEOMETRIES = [
    tr.Scores(cells=16),
    tr.Scalars(cells=16, order=1),
    tr.Scalars(cells=16, order=2),
    tr.ZeroOneLabels(4),
    tr.OrderedLabels((0.0, 1.0, 2.0, 3.0)),
    tr.TreeLabels((-1, 0, 0, 1), (0.0, 1.0, 2.0, 0.5)),
    tr.CostLabels(LINE),
    tr.Sliced(dimension=3, cells=4, order=1),
    tr.Sliced(dimension=3, cells=4, order=2),
    tr.Bures(2),
    tr.Bures(2, diagonal=True),
]


def identify(geometry):
    return f"{geometry.name}-W{geometry.order}"


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=identify)
def test_no_other_measure_is_nearer_on_average(geometry):
    rng = generator("barycenter", geometry.name, geometry.order)
    e = np.stack([geometry.embed(m) for m in random_measures(geometry, rng, 7)])
    w = rng.dirichlet(np.ones(7))
    center = tr.barycenter(geometry, e, w)
    best = objective(geometry, e, center, w, geometry.order)
    others = np.stack([geometry.embed(m) for m in random_measures(geometry, rng, 40)])
    for other in (*others, *e, w @ e):
        for mix in (0.02, 1.0):  # near and far
            candidate = center + mix * (other - center)
            assert best <= objective(geometry, e, candidate, w, geometry.order) + 1e-9


def test_w2_against_pot_free_support():
    rng = generator("free support")
    n, k = 32, 4
    samples = [np.sort(rng.normal(rng.normal(), rng.uniform(0.5, 2.0), n)) for _ in range(k)]
    w = rng.dirichlet(np.ones(k))
    geometry = tr.Scalars(order=2)
    e = np.stack([geometry.embed(tr.Samples(x)) for x in samples])
    mine = tr.barycenter(geometry, e, w)
    start = rng.normal(size=(n, 1))
    uniform = [np.full(n, 1 / n)] * k
    theirs = ot.lp.free_support_barycenter([x[:, None] for x in samples], uniform, start, weights=w, numItermax=200)
    np.testing.assert_allclose(mine, geometry.embed(tr.Samples(theirs[:, 0])), atol=1e-9)


def test_gaussians_against_pot():
    rng = generator("gaussian barycenter")
    geometry = tr.Bures(3)
    measures = random_measures(geometry, rng, 4)
    w = rng.dirichlet(np.ones(4))
    center = tr.barycenter(geometry, np.stack([geometry.embed(m) for m in measures]), w)
    m, s = ot.gaussian.bures_wasserstein_barycenter(
        np.stack([x.mean for x in measures]), np.stack([x.covariance for x in measures]), weights=w, eps=1e-13
    )
    np.testing.assert_allclose(center, np.concatenate([m.ravel(), s.ravel()]), atol=1e-6)


def test_w1_and_w2_differ_and_neither_is_the_mixture():
    places = [0.0, 0.0, 1.0]
    for order, middle in ((1, 0.0), (2, 1.0 / 3.0)):
        geometry = tr.Scalars(order=order)
        e = np.stack([geometry.embed(tr.Samples([x])) for x in places])
        np.testing.assert_allclose(tr.barycenter(geometry, e), geometry.embed(tr.Samples([middle])), atol=1e-12)
    scores = tr.Scores(cells=4)
    e = scores.embed_outcome(np.array(places))
    np.testing.assert_allclose(tr.barycenter(scores, e), scores.embed_outcome(0.0), atol=1e-12)
    np.testing.assert_allclose(tr.mixture(scores, e), scores.embed(tr.Samples([0.0, 1.0], [2 / 3, 1 / 3])), atol=1e-12)
    with pytest.raises(InvalidInputError, match="not linear"):
        tr.mixture(tr.Scalars(), e)


MEMORIES = [tr.Memory.everything(size=32), tr.Memory.window(6), tr.Memory.fading(4.0, size=32)]


@pytest.mark.parametrize("memory", MEMORIES, ids=lambda m: m.mode)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=identify)
def test_streaming_equals_batch(geometry, memory):
    if memory.mode == "all" and (geometry.name in ("tree_labels", "cost_labels") or geometry == tr.Bures(2)):
        with pytest.raises(InvalidInputError, match="memory"):
            tr.Barycenter(geometry, memory)
        return
    reference = tr.Barycenter(geometry, memory)
    measures = random_measures(geometry, generator("stream", geometry.name), 15)
    state = reference.start()
    with pytest.raises(InvalidInputError, match="no task"):
        reference.embedding(state)
    for measure in measures:
        reference.update(state, measure)
    e = np.stack([geometry.embed(m) for m in measures])
    age = np.arange(15)[::-1]
    weights = {"all": np.ones(15), "window": 1.0 * (age < 6), "decay": memory.factor**age}[memory.mode]
    once = tr.barycenter(geometry, e, weights)
    best = objective(geometry, e, once, weights, geometry.order)
    found = objective(geometry, e, reference.embedding(state), weights, geometry.order)
    assert found == pytest.approx(best, abs=1e-9)
    if geometry.name not in ("labels", "tree_labels", "cost_labels"):  # there the minimiser need not be unique
        np.testing.assert_allclose(reference.embedding(state), once, atol=1e-9)
    copy = decode(json.loads(json.dumps(encode(state))))
    again = tr.Barycenter.from_spec(json.loads(json.dumps(reference.spec())))
    np.testing.assert_array_equal(again.embedding(copy), reference.embedding(state))


def test_a_batch_is_its_rows():
    for geometry in (tr.Scalars(order=1, cells=8), tr.Scalars(order=2, cells=8), tr.ZeroOneLabels(3)):
        for memory in MEMORIES:
            reference = tr.Barycenter(geometry, memory)
            rng = generator("rows", geometry.name, memory.mode)
            e = np.stack([[geometry.embed(m) for m in random_measures(geometry, rng, 9)] for _ in range(3)])
            batch, rows = reference.start((3,)), [reference.start() for _ in range(3)]
            for t in range(9):
                reference.update(batch, e[:, t])
                for s in range(3):
                    reference.update(rows[s], e[s, t])
            expected = np.stack([reference.embedding(row) for row in rows])
            np.testing.assert_allclose(reference.embedding(batch), expected, atol=1e-12)


def test_medians_of_distributions_are_distributions():
    rng = generator("monotone")
    geometry = tr.Scalars(order=1, cells=16)
    e = np.stack([geometry.embed(m) for m in random_measures(geometry, rng, 8)])
    center = tr.barycenter(geometry, e) / geometry.scale
    assert all(a <= b + 1e-12 for a, b in pairwise(center))


def test_bad_requests_are_refused():
    with pytest.raises(InvalidInputError, match="no barycenter"):
        tr.Barycenter(tr.CostCloud(2))
    with pytest.raises(InvalidInputError, match="empty"):
        tr.barycenter(tr.Scores(), np.zeros((0, 64)))
    with pytest.raises(InvalidInputError, match="weights"):
        tr.barycenter(tr.Scores(), np.zeros((2, 64)), np.array([1.0]))
