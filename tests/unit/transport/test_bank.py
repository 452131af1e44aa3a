"""The bank of profiles: batches, saving, agents that come and go."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bot_orch import transport as tr
from bot_orch.arrays import decode, encode, insert_agent, remove_agent
from bot_orch.errors import InvalidInputError
from bot_orch.rng import generator

MEMORIES = [tr.Memory.everything(), tr.Memory.window(7), tr.Memory.fading(5.0)]
GEOMETRIES = [
    tr.Scores(cells=8),
    tr.Scalars(cells=8),
    tr.ZeroOneLabels(3),
    tr.Sliced(dimension=3, cells=4),
    tr.Bures(2),
    tr.Bures(2, diagonal=True),
    tr.CostCloud(2, capacity=8),
]


def draw(geometry, rng, shape):
    if geometry.kind == "labels":
        return rng.integers(0, geometry.n_labels, shape)
    return rng.random(shape + geometry.outcome_shape)


def combinations():
    for geometry in GEOMETRIES:
        for memory in MEMORIES:
            if not (geometry.name == "cost_cloud" and memory.mode == "all"):
                yield pytest.param(geometry, memory, id=f"{geometry.name}-{memory.mode}")


@pytest.mark.parametrize(("geometry", "memory"), list(combinations()))
def test_a_batch_is_its_rows(geometry, memory):
    bank = tr.ProfileBank(geometry, memory)
    rng = generator("bank", geometry.name, memory.mode)
    seeds, agents, rounds = 4, 3, 25
    batch, rows = bank.start(agents, (seeds,)), [bank.start(agents) for _ in range(seeds)]
    for _ in range(rounds):
        agent, outcome = rng.integers(0, agents, seeds), draw(geometry, rng, (seeds,))
        where = rng.random(seeds) < 0.8
        bank.update(batch, agent, outcome, where)
        for s in np.flatnonzero(where):
            bank.update(rows[s], int(agent[s]), outcome[s])
    for name in bank.schema:
        np.testing.assert_allclose(batch[name], np.stack([row[name] for row in rows]), atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("geometry", "memory"), list(combinations()))
def test_saving_and_restoring_changes_nothing(geometry, memory):
    bank = tr.ProfileBank(geometry, memory)
    rng = generator("save", geometry.name, memory.mode)
    state = bank.start(2)
    for _ in range(10):
        bank.update(state, int(rng.integers(2)), draw(geometry, rng, ()))
    copy = decode(json.loads(json.dumps(encode(state))))
    again = tr.ProfileBank.from_spec(json.loads(json.dumps(bank.spec())))
    assert again == bank
    for _ in range(10):
        agent, outcome = int(rng.integers(2)), draw(geometry, rng, ())
        bank.update(state, agent, outcome)
        again.update(copy, agent, outcome)
    assert all(np.array_equal(state[name], copy[name]) for name in bank.schema)


@pytest.mark.parametrize(("geometry", "memory"), list(combinations()))
def test_agents_come_and_go(geometry, memory):
    bank = tr.ProfileBank(geometry, memory)
    rng = generator("agents", geometry.name, memory.mode)
    state, untouched = bank.start(3, (2,)), bank.start(3, (2,))
    for _ in range(8):
        outcome = draw(geometry, rng, (2,))
        bank.update(state, np.array([0, 2]), outcome)
        bank.update(untouched, np.array([0, 2]), outcome)
    remove_agent(bank.schema, state, 1, batch_ndim=1)
    insert_agent(bank.schema, state, batch_ndim=1)
    bank.update(state, np.array([2, 2]), draw(geometry, rng, (2,)))
    np.testing.assert_array_equal(state["embedding"][:, 0], untouched["embedding"][:, 0])
    np.testing.assert_array_equal(state["embedding"][:, 1], untouched["embedding"][:, 2])
    assert state["seen"][:, 2].tolist() == [1, 1]


def test_an_unseen_agent_is_not_punished():
    bank = tr.ProfileBank(tr.Scores())
    found = bank.distances(bank.start(2), bank.geometry.embed_outcome(1.0))
    assert found.value.tolist() == found.lower.tolist() == found.debiased.tolist() == [0.0, 0.0]
    assert np.isinf(found.upper).all()
    assert found.n.tolist() == [0.0, 0.0]


def test_a_known_profile_is_certain():
    bank = tr.ProfileBank(tr.Scores(cells=10))
    found = bank.distances(bank.start(2), bank.geometry.embed_outcome(1.0), profiles={1: tr.Samples([0.5])})
    for which in ("plug_in", "lower", "upper", "debiased"):
        assert found.pick(which)[1] == pytest.approx(0.5)
    assert np.isinf(found.n[1])
    with pytest.raises(InvalidInputError, match="distance"):
        found.pick("middle")


def test_observed_measures_count_sample_by_sample():
    bank = tr.ProfileBank(tr.Scalars(cells=8), tr.Memory.window(16))
    one, many = bank.start(1), bank.start(1)
    bank.observe(one, 0, tr.Samples([1.0, 2.0, 3.0]))
    for value in (1.0, 2.0, 3.0):
        bank.update(many, 0, value)
    assert all(np.array_equal(one[name], many[name]) for name in bank.schema)
    with pytest.raises(InvalidInputError, match="unequal weights"):
        bank.observe(one, 0, tr.Samples([1.0, 2.0], [0.1, 0.9]))


def test_soft_labels_are_outcomes_too():
    bank = tr.ProfileBank(tr.ZeroOneLabels(2), tr.Memory.everything())
    state = bank.start(1)
    bank.observe(state, 0, tr.Labels([0.25, 0.75]))
    bank.update(state, 0, 1)
    np.testing.assert_allclose(bank.geometry.probabilities(bank.embedding(state)[0]), [0.125, 0.875])


def test_a_digest_says_how_far_it_may_be_off():
    bank = tr.ProfileBank(tr.Scalars(cells=256), tr.Memory.everything(size=32))
    state = bank.start(1)
    x = generator("digest").lognormal(size=2000)
    for value in x:
        bank.update(state, 0, value)
    bound = state["error"][0, 0] / len(x)
    off = bank.geometry.distances(bank.embedding(state), bank.geometry.embed(tr.Samples(x)))[0]
    assert 0.0 < off <= bound
    assert off < 0.05 * x.std()
    assert state["weights"].sum() == pytest.approx(len(x))


def test_bad_updates_are_refused():
    bank = tr.ProfileBank(tr.Scores())
    state, batch = bank.start(2), bank.start(2, (3,))
    for call in (
        lambda: bank.update(state, 2, 0.5),
        lambda: bank.update(state, -1, 0.5),
        lambda: bank.update(state, 0, np.nan),
        lambda: bank.update(batch, np.array([0, 1, 2]), 0.5),
        lambda: tr.ProfileBank(tr.CostCloud(2), tr.Memory.everything()),
        lambda: tr.ProfileBank(tr.CostCloud(2, capacity=4), tr.Memory.window(5)),
        lambda: tr.Memory("some"),
        lambda: tr.Memory.window(1),
        lambda: tr.Memory.fading(0.0),
    ):
        with pytest.raises(InvalidInputError):
            call()
    assert state["seen"].sum() == batch["seen"].sum() == 0


def test_effective_sample_size_of_fading_memory():
    memory = tr.Memory.fading(half_life=4.0)
    weights = memory.factor ** np.arange(9)
    assert memory.effective(np.array(9)) == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert memory.mass(np.array(9)) == pytest.approx(weights.sum())
    assert tr.Memory.from_spec(memory.spec()) == memory
