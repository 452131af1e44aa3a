"""The drift alarm: as rare as stated when nothing changes, soon when something does."""

from __future__ import annotations

import json

import numpy as np
import pytest
from _calibration import drift_study

from bot_orch import transport as tr
from bot_orch.arrays import decode, encode, insert_agent, remove_agent
from bot_orch.errors import InvalidInputError
from bot_orch.rng import generator


def upper_limit(rate, tests):
    """False alarms are binomial at most; three standard deviations of slack."""
    return rate + 3.0 * np.sqrt(rate * (1.0 - rate) / tests)


@pytest.mark.parametrize(
    "geometry",
    [tr.Scores(cells=16), tr.Scalars(cells=16), tr.Sliced(dimension=2, cells=4), tr.ZeroOneLabels(3)],
    ids=lambda g: g.name,
)
def test_false_alarms_at_the_stated_rate(geometry):
    rng = generator("calm", geometry.name)
    monitor = tr.DriftMonitor(geometry, recent=16, older=32, alpha=0.05, permutations=59)
    if geometry.kind == "labels":
        streams = np.eye(3)[rng.choice(3, p=[0.5, 0.3, 0.2], size=(60, 240))]
    else:
        streams = rng.normal(size=(60, 240, *geometry.outcome_shape))
        streams = np.clip(streams / 6 + 0.5, 0, 1)
    study = drift_study(monitor, streams, change=240)
    assert study.tests > 600
    assert study.false_alarms <= upper_limit(0.05, study.tests)
    if geometry.name != "labels":
        assert study.false_alarms >= 0.02  # calibrated, not merely quiet


def test_a_shift_is_found_soon():
    rng = generator("shift")
    before, after = rng.beta(2, 5, (40, 256)), rng.beta(5, 2, (40, 256))
    study = drift_study(tr.DriftMonitor(tr.Scores(), recent=32, older=96), np.hstack([before, after]), change=256)
    assert study.detected == 1.0
    assert study.delay <= 64


def test_a_change_of_shape_with_the_same_mean_is_found():
    rng = generator("shape")
    before = rng.normal(0.0, 1.0, (20, 256))
    after = np.where(rng.random((20, 256)) < 0.5, -2.0, 2.0) + rng.normal(0.0, 0.3, (20, 256))
    study = drift_study(tr.DriftMonitor(tr.Scalars()), np.hstack([before, after]), change=256)
    assert study.detected == 1.0


def test_tasks_can_be_watched():
    geometry = tr.Scores(cells=16)
    monitor = tr.DriftMonitor(geometry, recent=16, older=32, on="tasks")
    state = monitor.start()
    rng = generator("tasks")
    rang = []
    for t in range(160):
        center = 0.3 if t < 96 else 0.6
        task = tr.Samples(np.clip(rng.normal(center, 0.1, 20), 0, 1))
        rang.append(bool(monitor.update(state, geometry.embed(task))))
    assert rang.index(True) in (111, 127)
    assert state["alarms"] == sum(rang)


def test_state_saves_and_agents_come_and_go():
    monitor = tr.DriftMonitor(tr.Scores(cells=8), recent=4, older=8, alpha=0.05, permutations=39)
    state, rng = monitor.start(2), generator("drift state")
    for _ in range(11):
        monitor.update(state, rng.random(), agent=1)
    copy = decode(json.loads(json.dumps(encode(state))))
    last = rng.random()
    assert bool(monitor.update(state, last, agent=1)) == bool(monitor.update(copy, last, agent=1))
    assert state["tests"].tolist() == copy["tests"].tolist() == [0, 1]
    assert state["p_value"][1] == copy["p_value"][1]
    remove_agent(monitor.schema, state, 0)
    insert_agent(monitor.schema, state)
    assert state["tests"].tolist() == [1, 0]


def test_bad_requests_are_refused():
    for build in (
        lambda: tr.DriftMonitor(tr.Scores(), on="rewards"),
        lambda: tr.DriftMonitor(tr.Scores(), recent=1),
        lambda: tr.DriftMonitor(tr.Scores(), alpha=0.001),
        lambda: tr.DriftMonitor(tr.Scores()).update(tr.DriftMonitor(tr.Scores()).start(), 0.5),
    ):
        with pytest.raises(InvalidInputError):
            build()
