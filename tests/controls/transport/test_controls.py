"""Broken variants that the checks of this package must catch."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from _calibration import coverage, coverage_grid
from _lockin import lockin_shares

from bot_orch import transport as tr
from bot_orch.rng import derive_keys, generator
from bot_orch.transport.noise import SMALL, noise


class Squared(tr.Scalars):
    """Returns W2 squared, as some libraries do."""

    name = ""

    def distances(self, bank, reference):
        return super().distances(bank, reference) ** 2


def test_a_power_of_w_breaks_scaling_and_the_triangle():
    a, b, c = tr.Samples([0.0]), tr.Samples([1.0]), tr.Samples([2.0])
    right, wrong = tr.Scalars(order=2), Squared(order=2)
    assert tr.distance(right, a, c) <= tr.distance(right, a, b) + tr.distance(right, b, c) + 1e-12
    assert tr.distance(wrong, a, c) > tr.distance(wrong, a, b) + tr.distance(wrong, b, c)
    assert tr.distance(right, a, tr.Samples([3.0])) == pytest.approx(3.0)
    assert tr.distance(wrong, a, tr.Samples([3.0])) != pytest.approx(3.0)


def test_a_mixture_is_caught_by_the_objective_of_the_barycenter():
    geometry = tr.Scores(cells=10)
    e = geometry.embed_outcome(np.array([0.1, 0.4, 0.5, 0.6, 0.9]))
    cost = {
        name: geometry.distances(e, center).mean()
        for name, center in (("barycenter", tr.barycenter(geometry, e)), ("mixture", tr.mixture(geometry, e)))
    }
    assert cost["barycenter"] < cost["mixture"] - 0.05


def test_averaged_quantiles_are_not_the_w1_barycenter():
    geometry = tr.Scalars(order=1)
    e = np.stack([geometry.embed(tr.Samples([x])) for x in (0.0, 0.0, 1.0)])
    right, wrong = tr.barycenter(geometry, e), e.mean(axis=0)
    assert geometry.distances(e, right).mean() < geometry.distances(e, wrong).mean() - 0.05


def test_plug_in_distances_lock_in_where_the_check_looks():
    keys = derive_keys(["control"], range(20))
    assert lockin_shares(100.0, 400, keys, "plug_in").max(axis=1).mean() > 0.20
    assert lockin_shares(100.0, 400, keys, "debiased").max(axis=1).mean() > 0.20


def without_b0(geometry, bank, reference, n):
    found = tr.confidence(geometry, bank, reference, n)
    _, sd, small = noise(geometry, bank, reference, value=found.value, root=np.sqrt(n))
    lower = np.maximum(found.value - 1.645 * sd - small, 0.0)
    return tr.Distances(found.value, found.debiased, lower, found.upper, n)


def without_rare_outcomes(geometry, bank, reference, n):
    found = tr.confidence(geometry, bank, reference, n)
    _, sd, _ = noise(geometry, bank, reference, value=found.value, root=np.sqrt(n))
    upper = found.value + 1.645 * sd + SMALL / n
    return tr.Distances(found.value, found.debiased, found.lower, upper, n)


def test_an_interval_without_b0_fails_the_coverage_grid():
    cells = [cell for cell in coverage_grid() if cell.name == "scores uniform to uniform" and cell.n == 400]
    assert len(cells) == 1
    assert coverage(cells[0]) >= 0.88
    assert coverage(cells[0], interval=without_b0) < 0.88


def test_an_interval_blind_to_rare_outcomes_fails_the_coverage_grid():
    cells = [cell for cell in coverage_grid() if cell.name == "labels 0.95 to one label" and cell.n == 20]
    assert coverage(cells[0]) >= 0.88
    assert coverage(cells[0], interval=without_rare_outcomes) < 0.88


def test_a_sliced_sum_without_its_constant_is_no_lower_bound():
    rng = generator("control sliced")
    x, y = rng.normal(size=(2, 8, 3))
    exact = ot.emd2([], [], ot.dist(x, y, metric="euclidean"))
    geometry = tr.Sliced(dimension=3, order=1)
    w = tr.distance(geometry, tr.Cloud(x), tr.Cloud(y))
    assert w <= exact
    assert w / geometry.constant > exact


def test_a_fixed_threshold_is_not_calibrated():
    """An alarm at a threshold tuned on one distribution rings all the time on a wider one; ours does not."""
    monitor = tr.DriftMonitor(tr.Scalars(cells=16), recent=16, older=32, alpha=0.05, permutations=59)
    rng = generator("control drift")
    tuned, wide = rng.normal(size=(200, 48)), 3.0 * rng.normal(size=(200, 48))
    threshold = np.quantile([monitor.compare(x)[0] for x in tuned], 0.95)
    found = [monitor.compare(x, test) for test, x in enumerate(wide)]
    assert np.mean([w > threshold for w, _ in found]) > 0.5
    assert np.mean([p <= 0.05 for _, p in found]) < 0.10


def test_probabilities_taken_for_samples_are_refused():
    """As samples these two are the same measure: a silent W = 0."""
    p, q = [0.2, 0.8], [0.8, 0.2]
    assert tr.distance(tr.Scores(), tr.Samples(p), tr.Samples(q)) == pytest.approx(0.0)
    assert tr.distance(tr.ZeroOneLabels(2), tr.Labels(p), tr.Labels(q)) == pytest.approx(0.6)
    with pytest.raises(ValueError, match="kinds do not mix"):
        tr.distance(tr.Scores(), tr.Labels(p), tr.Samples(q))
