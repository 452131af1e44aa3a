"""Sorted windows and distances against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from bot_orch import transport as tr
from bot_orch.rng import generator
from bot_orch.transport.vectors import l1, l2


@pytest.mark.parametrize(
    ("bank", "reference"), [((5, 7), (7,)), ((3, 5, 7), (7,)), ((3, 5, 7), (3, 7)), ((1, 1), (1,))]
)
def test_distances_are_norms_of_differences(bank, reference):
    rng = generator("vectors")
    b, r = rng.normal(size=bank), rng.normal(size=reference)
    difference = b - r[..., None, :]
    np.testing.assert_allclose(l1(b, r), np.abs(difference).sum(axis=-1), rtol=1e-12)
    np.testing.assert_allclose(l2(b, r), np.linalg.norm(difference, axis=-1), rtol=1e-12)


@pytest.mark.parametrize("geometry", [tr.Scalars(cells=16), tr.Sliced(dimension=3, cells=4)], ids=lambda g: g.name)
@pytest.mark.parametrize("batch", [(), (4,)], ids=["one", "batch"])
def test_a_window_holds_the_embedding_of_its_last_outcomes(geometry, batch):
    bank = tr.ProfileBank(geometry, tr.Memory.window(9))
    rng = generator("windows", geometry.name, len(batch))
    state, seen = bank.start(3, batch), {}
    for _ in range(60):
        agent = rng.integers(0, 3, batch) if batch else int(rng.integers(3))
        outcome = np.round(rng.normal(size=batch + geometry.outcome_shape), 1)  # ties
        bank.update(state, agent, outcome)
        for row in np.ndindex(batch):
            at = (*row, int(np.asarray(agent)[row]))
            seen.setdefault(at, []).append(outcome[row])
    for at, outcomes in seen.items():
        expected = geometry.embed_outcomes(np.array(outcomes[-9:]))
        np.testing.assert_allclose(state["embedding"][at], expected, rtol=1e-12, atol=1e-12)
        assert state["seen"][at] == len(outcomes)
