"""auto when all rows that it keeps are taken: in a world that does not change nothing gets worse; it stays small."""

import json

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.core.context import ROWS, with_context
from bot_orch.policies.auto import Auto
from bot_orch.policies.base import Situation
from bot_orch.rng import generator

AGENTS, FEATURES, SEEDS = 5, 6, 12


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
    centres, table = 1.5 * rng.normal(size=(SEEDS, 6, FEATURES)), rng.uniform(0.2, 0.8, size=(SEEDS, 6, AGENTS))

    def clustered():
        which = np.arange(SEEDS), rng.integers(6, size=SEEDS)
        return centres[which] + 0.5 * rng.normal(size=(SEEDS, FEATURES)), table[which]

    return clustered


def regret(name):
    """Mean over seeds, round by round."""
    rng = generator(f"full memory {name}")
    draw, policy = world(name, rng), with_context(Auto(), numbers=0 if name == "flat" else FEATURES, words=0)
    state, lost = allocate(policy.schema(0), (SEEDS,), AGENTS), np.zeros(3 * ROWS // 2)
    for t in range(len(lost)):
        x, mean = draw()
        situation = Situation(t + 1, np.zeros((SEEDS, AGENTS)), None, x)
        drawn = pipeline.decide(policy, state, situation, u=rng.random(SEEDS))
        worth = mean[np.arange(SEEDS), drawn.agent]
        pipeline.apply(policy, state, pipeline.bandit_feedback(drawn, (rng.random(SEEDS) < worth).astype(float)))
        lost[t] = (mean.max(axis=1) - worth).mean()
    return lost


@pytest.mark.parametrize("name", ["linear", "clustered", "flat"])
def test_regret_goes_on_falling_when_all_rows_are_taken(name):
    lost = regret(name)
    assert lost[ROWS:].mean() < lost[ROWS // 2 : ROWS].mean() < lost[: ROWS // 2].mean()


def size(text, rounds=ROWS + 50):
    router, rng = Orchestrator([f"a{i}" for i in range(100)], seed=1), generator("small")
    for number in range(rounds):
        words = " ".join(f"w{code}" for code in rng.integers(3000, size=30))
        features = () if text else tuple(rng.normal(size=10))
        task = Task(str(number), text=words if text else None, features=features)
        decision = router.decide(task, [f"a{number % 100}"])  # what is like a new agent's takes little room
        router.observe(decision.id, Outcome.completed(float(rng.random() < 0.5), elapsed_s=rng.exponential()))
    return len(router.to_json())


@pytest.mark.parametrize(("text", "most"), [(False, 600_000), (True, 900_000)])
def test_the_state_of_a_hundred_agents_is_bounded(text, most):
    assert size(text) < most


def test_a_state_without_a_new_array_is_read():
    router = Orchestrator(["a", "b"], "auto", n_features=1)
    for number in range(40):
        decision = router.decide(Task("t", features=(float(number),)))
        router.observe(decision.id, Outcome.completed(reward=number % 2))
    document = json.loads(router.to_json())
    del document["state"]["parts"]["policy"]["last"]
    old = Orchestrator.from_json(json.dumps(document))
    kept, known = old._state.parts["policy"], router._state.parts["policy"]
    assert np.array_equal(kept["count"], known["count"]) and np.array_equal(kept["total"], known["total"])
    decision = old.decide(Task("t", features=(0.5,)))
    old.observe(decision.id, Outcome.completed(1.0))
    assert np.isfinite(old.derive(Task("t", features=(0.5,))).terms.estimate).all()
