"""auto when its memory is full: old outcomes are merged, so that nothing gets worse in a world that does not change."""

import json

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.policies.auto import memory as contextual_memory
from bot_orch.policies.auto.memory import GaussianProcessMemory, GaussianProcessPrior
from bot_orch.policies.auto.policy import Auto
from bot_orch.policies.base import Situation
from bot_orch.rng import generator

AGENTS, CAPACITY, FEATURES, SEEDS = 5, 256, 10, 12


def world(name, rng):
    """A function that draws features and mean rewards for every seed."""
    if name == "flat":
        means = rng.uniform(0.3, 0.7, size=(SEEDS, AGENTS))
        return lambda: (None, means)
    if name == "linear":
        slope = 0.12 * rng.normal(size=(SEEDS, FEATURES, AGENTS))

        def linear():
            x = rng.normal(size=(SEEDS, FEATURES))
            return x, np.clip(0.5 + np.einsum("sd,sdm->sm", x, slope), 0.0, 1.0)

        return linear
    centres, table = 1.5 * rng.normal(size=(SEEDS, 8, FEATURES)), rng.uniform(0.2, 0.8, size=(SEEDS, 8, AGENTS))

    def clustered():
        which = np.arange(SEEDS), rng.integers(8, size=SEEDS)
        return centres[which] + 0.5 * rng.normal(size=(SEEDS, FEATURES)), table[which]

    return clustered


def regret(name, rounds=3 * CAPACITY // 2):
    """Mean over seeds, round by round."""
    rng = generator(f"full memory {name}")
    draw, policy = world(name, rng), Auto(capacity=CAPACITY)
    state = allocate(policy.schema(0 if name == "flat" else FEATURES), (SEEDS,), AGENTS)
    lost = np.zeros(rounds)
    for t in range(rounds):
        x, mean = draw()
        situation = Situation(t + 1, np.zeros((SEEDS, AGENTS)), None, x)
        drawn = pipeline.decide(policy, state, situation, u=rng.random(SEEDS))
        worth = mean[np.arange(SEEDS), drawn.agent]
        pipeline.apply(policy, state, pipeline.bandit_feedback(drawn, (rng.random(SEEDS) < worth).astype(float)))
        lost[t] = (mean.max(axis=1) - worth).mean()
    return lost


def rise(name):
    """Regret in the half lap after the memory is full, over that in the half lap before."""
    lost, half = regret(name), CAPACITY // 2
    return lost[CAPACITY:].mean() / lost[half:CAPACITY].mean()


@pytest.mark.parametrize("name", ["linear", "clustered", "flat"])
def test_regret_goes_on_falling_when_the_memory_fills(name):
    assert rise(name) < 0.95


@pytest.mark.parametrize("name", ["linear", "clustered", "flat"])
def test_control_dropping_the_oldest_makes_regret_rise(name, monkeypatch):
    monkeypatch.setattr(contextual_memory, "merge_oldest", lambda *_, **__: None)
    assert rise(name) > 0.95


def small(capacity=8, drift=0.0):
    memory = GaussianProcessMemory(
        (GaussianProcessPrior(agent=0.1, task=1.0, agent_task=0.5), GaussianProcessPrior(0.1, 1.0, 0.5, drift=drift)),
        capacity=capacity,
    )
    return memory, allocate(memory.schema(1), (), 2)


def teach(memory, state, t, agent, reward=1.0, x=0.0):
    memory.learn(state, np.array(agent), np.array(reward), context=np.array([x]), t=t)


def test_the_only_outcome_of_an_agent_is_kept():
    memory, state = small()
    for t in range(40):
        teach(memory, state, t, agent=int(t > 0))
    found = memory.predict(state, np.array([0.0]), 40)
    assert found.unknown[0] < 1.0
    assert (state["owner"] == 0).sum() == 1
    assert state["weight"].max() == 4.0


def test_merging_outcomes_of_one_task_keeps_predictions():
    """Averaged rewards that count twice are the same model as two rewards."""
    memory, state = small(capacity=16)
    rng = generator("merge")
    for t, (x, reward) in enumerate(zip(np.repeat(rng.normal(size=8), 2), rng.random(16), strict=True)):
        teach(memory, state, t, 0, reward, x)
    before = memory.predict(state, np.array([0.3]), 16)
    flat, _ = contextual_memory._flatten(state)
    memory._make_room(flat, 0, contextual=True)
    assert sorted(state["weight"])[-2:] == [1.0, 2.0]
    state["alpha"][0], state["weight"][0] = 0.0, 0.0
    after = memory.predict(state, np.array([0.3]), 16)
    np.testing.assert_allclose(after.value, before.value, rtol=1e-12)
    np.testing.assert_allclose(after.variance, before.variance, rtol=1e-12)


@pytest.mark.parametrize(("foreseen", "heaviest"), [(-9.0, 2.0), (9.0, 1.0)])
def test_under_drift_the_oldest_is_dropped(foreseen, heaviest):
    memory, state = small(drift=0.5)
    for t in range(8):
        teach(memory, state, t, agent=0)
    state["evidence"][:] = [0.0, foreseen]
    teach(memory, state, 8, agent=0)
    assert state["weight"].max() == heaviest


def test_a_state_saved_before_rows_had_weights_is_read():
    router = Orchestrator(["a", "b"], "auto", n_features=1)
    for number in range(5):
        decision = router.decide(Task("t", features=(float(number),)))
        router.observe(decision.id, Outcome.completed(reward=number % 2))
    document = json.loads(router.to_json())
    del document["state"]["parts"]["policy"]["weight"]
    old = Orchestrator.from_json(json.dumps(document))
    assert old.to_json() == router.to_json()
    first, second = (each.decide(Task("t", features=(0.5,))).propensities for each in (old, router))
    np.testing.assert_array_equal(first, second)
