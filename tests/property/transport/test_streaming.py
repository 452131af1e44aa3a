"""One outcome at a time gives what all at once gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bot_orch import transport as tr

QUICK = settings(max_examples=40, deadline=None, derandomize=True)
GEOMETRIES = [
    tr.Scores(cells=8),
    tr.Scalars(cells=8),
    tr.Scalars(cells=8, order=2),
    tr.ZeroOneLabels(3),
    tr.OrderedLabels((0.0, 1.0, 3.0)),
    tr.TreeLabels((-1, 0, 0), (0.0, 1.0, 2.0)),
    tr.Sliced(dimension=3, cells=4),
    tr.Bures(2, clouds=True),
    tr.Bures(2, clouds=True, diagonal=True),
    tr.CostCloud(2, capacity=40),
]
MEMORIES = [tr.Memory.everything(), tr.Memory.window(5), tr.Memory.fading(3.0)]
COMBINATIONS = [
    pytest.param(g, m, id=f"{g.name}-W{g.order}-{m.mode}")
    for g in GEOMETRIES
    for m in MEMORIES
    if not (g.name == "cost_cloud" and m.mode == "all")
]


def at_once(geometry, memory, outcomes):
    """The measure the memory describes, embedded in one go."""
    age = np.arange(len(outcomes))[::-1]
    w = {"all": np.ones(len(age)), "window": 1.0 * (age < memory.size), "decay": memory.factor**age}[memory.mode]
    outcomes, w = outcomes[w > 0], w[w > 0] / w.sum()
    if geometry.kind == "labels":
        return geometry.embed(tr.Labels(np.bincount(outcomes, w, geometry.n_labels)))
    if geometry.outcome_shape == ():
        return geometry.embed(tr.Samples(outcomes, w))
    return geometry.embed(tr.Cloud(outcomes, w))


@pytest.mark.parametrize(("geometry", "memory"), COMBINATIONS)
@QUICK
@given(data=st.data(), n=st.integers(1, 30))
def test_streaming_equals_batch(geometry, memory, data, n):
    if geometry.kind == "labels":
        outcomes = data.draw(arrays(np.int64, n, elements=st.integers(0, geometry.n_labels - 1)))
    else:
        unit = st.floats(0.0, 1.0).map(lambda x: round(x, 3))
        outcomes = data.draw(arrays(float, (n, *geometry.outcome_shape), elements=unit))
    bank = tr.ProfileBank(geometry, memory)
    state = bank.start(2)
    for outcome in outcomes:
        bank.update(state, 1, outcome)
    expected = at_once(geometry, memory, outcomes)
    found = bank.embedding(state)[1]
    if geometry.name == "cost_cloud":  # a ring keeps the points in another order
        assert geometry.distances(found[None], expected)[0] <= 1e-9
    elif geometry.name == "bures" and geometry.diagonal:  # standard deviations: roots of differences
        np.testing.assert_allclose(found[:2], expected[:2], atol=1e-12)
        np.testing.assert_allclose(found[2:] ** 2, expected[2:] ** 2, atol=1e-12)
    else:
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert state["seen"].tolist() == [0, n]
    assert not state["embedding"][0].any()
