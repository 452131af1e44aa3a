"""Measures say what their numbers mean, and refuse to be mixed."""

from __future__ import annotations

import numpy as np
import pytest

from bot_orch import transport as tr
from bot_orch.errors import InvalidInputError
from bot_orch.types import Measure

MEASURES = [
    tr.Samples([3.0, 1.0], [0.25, 0.75]),
    tr.Samples([1.0, 2.0, 3.0]),
    tr.Labels([0.1, 0.9]),
    tr.Gaussian([0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]]),
    tr.Gaussian([0.0, 1.0], [2.0, 1.0]),
    tr.Cloud([[0.0, 1.0], [2.0, 3.0]], [0.5, 0.5]),
]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: m.kind)
def test_round_trip(measure):
    assert isinstance(measure, Measure)
    document = measure.to_dict()
    assert tr.measure_from_dict(document).to_dict() == document


def test_all_names_are_sorted_and_exist():
    assert sorted(tr.__all__) == tr.__all__
    assert all(hasattr(tr, name) for name in tr.__all__)


@pytest.mark.parametrize(
    "build",
    [
        lambda: tr.Samples([]),
        lambda: tr.Samples([np.nan]),
        lambda: tr.Samples([1.0, 2.0], [0.5]),
        lambda: tr.Samples([1.0, 2.0], [0.5, 0.6]),
        lambda: tr.Labels([0.5, 0.6]),
        lambda: tr.Labels([-0.5, 1.5]),
        lambda: tr.Cloud([1.0, 2.0]),
        lambda: tr.Gaussian([0.0], [[1.0, 0.0], [0.0, 1.0]]),
        lambda: tr.Gaussian([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]),
        lambda: tr.Gaussian([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]),
        lambda: tr.measure_from_dict({"kind": "colour"}),
        lambda: tr.measure_from_dict({"kind": "labels", "values": [1.0]}),
    ],
)
def test_bad_measures_are_refused(build):
    with pytest.raises(InvalidInputError):
        build()


def test_measures_cannot_be_changed():
    samples = tr.Samples([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        samples.values[0] = 5.0


GEOMETRIES = [
    tr.Scores(),
    tr.Scalars(),
    tr.ZeroOneLabels(3),
    tr.OrderedLabels((0.0, 1.0, 2.0)),
    tr.TreeLabels((-1, 0, 0), (0.0, 1.0, 1.0)),
    tr.CostLabels(((0.0, 1.0), (1.0, 0.0))),
    tr.Sliced(dimension=3),
    tr.Bures(3),
    tr.Bures(3, clouds=True),
    tr.CostCloud(3),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
def test_kinds_do_not_mix(geometry):
    for measure in MEASURES:
        if measure.kind != geometry.kind and not (getattr(geometry, "clouds", False) and measure.kind == "cloud"):
            with pytest.raises(InvalidInputError, match="kinds do not mix"):
                geometry.embed(measure)


def test_dimensions_do_not_mix():
    for geometry, measure in [
        (tr.Sliced(dimension=3), tr.Cloud([[0.0, 1.0]])),
        (tr.CostCloud(3), tr.Cloud([[0.0, 1.0]])),
        (tr.Bures(3), tr.Gaussian([0.0], [1.0])),
        (tr.ZeroOneLabels(3), tr.Labels([0.5, 0.5])),
    ]:
        with pytest.raises(InvalidInputError, match="dimensions do not mix"):
            geometry.embed(measure)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
def test_specifications_are_plain_and_come_back(geometry):
    import json

    assert tr.geometry_from_spec(json.loads(json.dumps(geometry.spec()))) == geometry
    assert geometry.certificate in ("exact", "lower_bound", "approximate")
    assert geometry.order in (1, 2)


def test_unknown_specifications_are_refused():
    with pytest.raises(InvalidInputError, match=r"geometry\.name"):
        tr.geometry_from_spec({"name": "taxi"})
    with pytest.raises(InvalidInputError, match="not a setting of"):
        tr.geometry_from_spec({"name": "scores", "colour": 1})
