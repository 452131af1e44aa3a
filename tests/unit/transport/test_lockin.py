"""Lock-in of plug-in distances, and its cure."""

from __future__ import annotations

import numpy as np
import pytest
from _lockin import lockin_shares

from bot_orch.rng import derive_keys

KEYS = derive_keys(["lock-in test"], range(40))


@pytest.mark.parametrize("lambda_", [20.0, 50.0, 100.0])
def test_lower_distances_share_the_work(lambda_):
    shares = lockin_shares(lambda_, 1000, KEYS)
    assert shares.max(axis=1).mean() <= 0.20


def test_plug_in_distances_lock_in():
    shares = lockin_shares(100.0, 1000, KEYS, "plug_in")
    assert shares.max(axis=1).mean() >= 0.95


def test_a_worse_agent_is_still_avoided():
    shares = lockin_shares(100.0, 1000, KEYS, gap=0.3)
    assert shares[:, 0].mean() < 0.08


def test_shares_depend_on_the_key_alone():
    once, again = lockin_shares(50.0, 30, KEYS[:3]), lockin_shares(50.0, 30, KEYS[1:3])
    np.testing.assert_array_equal(once[1:], again)
