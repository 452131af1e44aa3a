"""auto when its memory is full: old outcomes are merged, so that nothing gets worse in a world that does not change."""

import json

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.policies.auto import memory
from bot_orch.policies.auto.kinds import steps
from bot_orch.policies.auto.policy import Auto
from bot_orch.policies.auto.state import AutoState
from bot_orch.policies.base import Situation
from bot_orch.rng import generator

AGENTS, CAPACITY, FEATURES, SEEDS = 5, 256, 10, 48


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


@pytest.mark.parametrize("name", ["linear", "clustered", "flat"])
def test_regret_goes_on_falling_when_the_memory_fills(name):
    lost, half = regret(name), CAPACITY // 2
    assert lost[CAPACITY:].mean() < 0.95 * lost[half:CAPACITY].mean()


def small(capacity=8, agents=2):
    return AutoState(**allocate(Auto(capacity=capacity).schema(1), (), agents))


def teach(state, t, agent, reward=1.0, x=0.0, block=4):
    nothing = np.full(len(state.uid), np.nan)
    steps("plain").learn(state, agent, reward, np.array([x]), nothing, float(t), block, True)


def test_the_only_outcome_of_an_agent_is_kept():
    state = small()
    for t in range(40):
        teach(state, t, agent=int(t > 0))
    assert (state.owner == 0).sum() == 1
    assert state.weight.sum() == 40.0, "merged outcomes count in full"


def covariance(state, x, n):
    """Prediction of the first member for agent 0, from the coefficients."""
    own, common = memory.covariances(state, np.array([x]), 16.0, n)
    return float(np.sum(state.alpha[0, :n] * (own[0] + common[0])))


def test_merging_outcomes_of_one_task_keeps_predictions():
    """Averaged rewards that count twice are the same model as two rewards."""
    state, rng = small(capacity=16), generator("merge")
    for t, (x, reward) in enumerate(zip(np.repeat(rng.normal(size=8), 2), rng.random(16), strict=True)):
        teach(state, t, 0, reward, x)
    before = covariance(state, 0.3, 16)
    memory.make_room(state, 0, 4, merging=True)
    assert sorted(state.weight)[-2:] == [1.0, 2.0]
    state.alpha[:, 0] = 0.0
    assert covariance(state, 0.3, 16) == pytest.approx(before, rel=1e-6)


@pytest.mark.parametrize(("recent", "heaviest"), [(-9.0, 2.0), (9.0, 1.0)])
def test_under_drift_the_oldest_is_dropped(recent, heaviest):
    state = small()
    for t in range(8):
        teach(state, t, agent=0)
    state.evidence[:] = [0.0, recent, 0.0, 0.0, 0.0]
    teach(state, 8, agent=0)
    assert state.weight.max() == heaviest


def test_a_state_without_a_new_array_is_read():
    router = Orchestrator(["a", "b"], "auto", n_features=1)
    for number in range(5):
        decision = router.decide(Task("t", features=(float(number),)))
        router.observe(decision.id, Outcome.completed(reward=number % 2))
    document = json.loads(router.to_json())
    del document["state"]["parts"]["policy"]["weight"]
    old = Orchestrator.from_json(json.dumps(document))
    assert old.to_json() == router.to_json()


@pytest.mark.parametrize("agents", [6, 100])
def test_the_state_stays_small(agents):
    router = Orchestrator([f"agent-{i}" for i in range(agents)], "auto", n_features=10)
    rng = generator("size")
    for _ in range(900):
        decision = router.decide(Task("t", features=tuple(rng.normal(size=10))))
        router.observe(decision.id, Outcome.completed(reward=float(rng.random() < 0.5), elapsed_s=rng.exponential()))
    document = json.loads(router.to_json())["state"]["parts"]["policy"]
    assert len(json.dumps(document)) < 180_000
    assert len(router.to_json()) < 200_000
