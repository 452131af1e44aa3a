"""Confidence distances: they hold the truth as often as they say."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from _calibration import SIZES, CoverageCell, coverage, coverage_grid

from bot_orch import transport as tr
from bot_orch.errors import InvalidInputError
from bot_orch.rng import generator
from bot_orch.transport.noise import noise

CELLS = defaultdict(list)
for _cell in coverage_grid():
    CELLS[_cell.geometry.name].append(_cell)


def test_the_grid_is_as_declared():
    assert {name: len(cells) for name, cells in CELLS.items()} == {
        "scores": 45,
        "scalars": 72,
        "labels": 27,
        "ordered_labels": 27,
        "tree_labels": 27,
        "sliced": 72,
        "bures": 36,
    }
    assert SIZES == (20, 100, 400)


@pytest.mark.parametrize("name", sorted(CELLS))
def test_coverage_in_every_cell(name):
    short = {f"{cell.name}, n = {cell.n}": found for cell in CELLS[name] if (found := coverage(cell, 300)) < 0.88}
    assert not short


def test_b0_is_the_mean_distance_under_the_null():
    geometry, n, repeats = tr.Scores(), 100, 2000
    reference = geometry.embed(tr.Samples((np.arange(1000) + 0.5) / 1000))
    bank = geometry.embed_outcomes(generator("null").random((repeats, n)))
    value = geometry.distances(bank, reference)
    b0, _, _ = noise(geometry, bank, reference, value=value, root=np.full(repeats, np.sqrt(n)))
    assert float(b0[0]) == pytest.approx(float(value.mean()), rel=0.03)
    assert float(b0[0]) == pytest.approx(np.sqrt(2 / np.pi) * (np.pi / 8) / np.sqrt(n), rel=0.01)


def test_lower_is_the_declared_formula():
    geometry, n = tr.Scores(), 50.0
    bank = geometry.embed_outcomes(generator("formula").random((1, 50)))
    reference = geometry.embed_outcome(1.0)
    found = tr.confidence(geometry, bank, reference, np.array([n]))
    b0, sd, small = noise(geometry, bank, reference, value=found.value, root=np.sqrt([n]))
    assert small[0] == pytest.approx(0.8 / n)
    assert found.lower[0] == pytest.approx(max(0.0, found.value[0] - b0[0] - 1.6448536 * sd[0] - 0.8 / n), abs=1e-7)
    assert found.debiased[0] == pytest.approx(np.sqrt(found.value[0] ** 2 - b0[0] ** 2))


def test_intervals_shrink_and_known_profiles_have_none():
    for cell in (cells[0] for cells in CELLS.values()):
        g = cell.geometry
        bank, target = g.embed(cell.profile)[None], g.embed(cell.reference)
        widths = [
            float((found.upper - found.lower)[0])
            for n in (10.0, 1000.0, np.inf)
            for found in [tr.confidence(g, bank, target, np.array([n]))]
        ]
        assert widths[0] > widths[1] > widths[2] == 0.0


def test_exact_costs_have_intervals_too():
    cost = tuple(map(tuple, 1.0 - np.eye(3)))
    for geometry, profile, reference in (
        (tr.CostLabels(cost), tr.Labels([0.2, 0.3, 0.5]), tr.Labels([0.0, 0.0, 1.0])),
        (tr.CostLabels(cost, order=2), tr.Labels([0.2, 0.3, 0.5]), tr.Labels([0.3, 0.2, 0.5])),
        (tr.CostLabels(cost), tr.Labels([0.2, 0.3, 0.5]), tr.Labels([0.2, 0.3, 0.5])),
        (tr.CostCloud(1), tr.Cloud([[0.0], [0.25], [0.5], [1.0]]), tr.Cloud([[0.0], [0.5], [1.0], [1.5]])),
    ):
        assert coverage(CoverageCell("exact", geometry, profile, reference=reference, n=30), 100) >= 0.88


def test_bad_requests_are_refused():
    g = tr.Scalars()
    bank, target, n = g.embed_outcome(np.zeros(1)), g.embed_outcome(1.0), np.ones(1)
    with pytest.raises(InvalidInputError):
        tr.confidence(g, bank, target, n, level=1.0)
