"""Numba twins give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

from bot_orch import transport as tr
from bot_orch.rng import generator

NUMPY, NUMBA = tr.kernels("numpy"), tr.kernels("numba")


@pytest.mark.parametrize("name", ["l1", "l2"])
@pytest.mark.parametrize(
    ("bank", "reference"), [((5, 7), (7,)), ((3, 5, 7), (7,)), ((3, 5, 7), (3, 7)), ((1, 1), (1,))]
)
def test_distances_agree(name, bank, reference):
    rng = generator("kernels", name)
    b, r = rng.normal(size=bank), rng.normal(size=reference)
    found, expected = getattr(NUMBA, name)(b, r), getattr(NUMPY, name)(b, r)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("geometry", [tr.Scalars(cells=16), tr.Sliced(dimension=3, cells=4)], ids=lambda g: g.name)
@pytest.mark.parametrize("batch", [(), (4,)], ids=["one", "batch"])
def test_windows_agree(geometry, batch):
    slow, fast = (tr.ProfileBank(geometry, tr.Memory.window(9), k) for k in (NUMPY, NUMBA))
    rng = generator("windows", geometry.name, len(batch))
    a, b = slow.start(3, batch), fast.start(3, batch)
    for _ in range(60):
        agent = rng.integers(0, 3, batch) if batch else int(rng.integers(3))
        outcome = np.round(rng.normal(size=batch + geometry.outcome_shape), 1)  # ties
        slow.update(a, agent, outcome)
        fast.update(b, agent, outcome)
        np.testing.assert_allclose(a["embedding"], b["embedding"], rtol=1e-12, atol=1e-12)
    for name in ("ring", "ordered", "seen"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-12)


def test_the_switch():
    assert tr.kernels().name == "numba"
    assert tr.kernels("numpy") is NUMPY
