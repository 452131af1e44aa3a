"""Features that nobody announced are used or refused, never ignored; wrong types are named with a remedy."""

import numpy as np
import pytest

from bot_orch import Agent, InvalidInputError, Orchestrator, Outcome, Policy, Task
from bot_orch.core.settings import Settings
from bot_orch.policies import Choice
from bot_orch.policies.registry import make_policy
from bot_orch.rng import generator


def earned(rounds=600, **settings):
    """Mean reward of the last half where the first feature tells which of two agents is right."""
    rng, router, total = generator("features", 1), Orchestrator(["low", "high"], seed=3, **settings), 0.0
    for number in range(rounds):
        x = rng.normal(size=2)
        decision = router.decide(Task(str(number), features=tuple(x)))
        reward = float((decision.agent == "high") == (x[0] > 0.0))
        router.observe(decision.id, Outcome.completed(reward))
        total += reward * (number >= rounds // 2)
    return total / (rounds / 2)


def test_features_are_used_without_being_announced():
    assert earned() > 0.85
    assert earned() == earned(n_features=2), "the same router"


def test_control_unused_features_earn_what_a_coin_does():
    assert earned(n_features=0) < 0.65


def test_the_first_task_decides_how_many():
    router = Orchestrator(["a", "b"], "linucb")
    assert router.n_features is None
    looked = router.prepare(Task(features=(1.0, 2.0)))
    assert router.n_features is None, "preparing changes nothing"
    assert router.decide(Task(features=(1.0, 2.0))).agent == looked.agent
    assert router.n_features == 2
    with pytest.raises(InvalidInputError, match=r"task\.features: has 3 numbers, this orchestrator expects 2"):
        router.decide(Task(features=(1.0, 2.0, 3.0)))
    with pytest.raises(InvalidInputError, match=r"task\.features: has 0 numbers"):
        router.decide(Task())


def test_features_after_a_first_task_without_any_are_refused():
    router = Orchestrator(["a", "b"], "linucb")
    router.decide(Task("plain"))
    with pytest.raises(
        InvalidInputError, match=r"task\.features: has 1 numbers, the first task had none; pass n_features"
    ):
        router.decide(Task(features=(1.0,)))
    assert len(router.pending) == 1


def test_what_the_first_task_decided_is_saved_and_kept():
    router = Orchestrator(["a", "b"], "linucb", seed=1)
    fresh = Orchestrator.from_json(router.to_json())
    assert fresh.n_features is None
    router.add_agent("c")
    decision = router.decide(Task(features=(0.5, 0.5)))
    router.observe(decision.id, Outcome.completed(1.0))
    again = Orchestrator.from_json(router.to_json())
    assert again.n_features == 2 and again.fingerprint() == router.fingerprint()
    router.reconfigure(Settings(make_policy("linucb"), n_features=None, seed=1), router.members)
    assert router.n_features == 2
    one, two = router.prepare(Task(features=(0.1, 0.2))), again.prepare(Task(features=(0.1, 0.2)))
    assert np.array_equal(one.terms.estimate, two.terms.estimate)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda r: r.decide("text"), r"task: is of type str; pass a Task, such as Task"),
        (lambda r: r.prepare({"id": 1}), "task: is of type dict; pass a Task"),
        (lambda r: r.observe(r.decide(Task()).id, 0.5), r"outcome: is of type float; pass Outcome\.completed"),
        (lambda r: Orchestrator("gpt4"), r"agents: is the text 'gpt4'; pass a list: \['gpt4'\]"),
        (lambda r: Agent("a", cost=-1.0), "agent.cost: is -1.0; pass what a call costs, zero or more"),
        (lambda r: Orchestrator(["a"], floor=2.0), "floor: is 2.0"),
        (lambda r: Agent("a", cost="1"), r"agent\.cost: is '1'; pass what a call costs"),
        (lambda r: Agent(3), r"agent\.id: is 3; give every agent a name"),
        (lambda r: Task(features=1.0), r"task\.features: is 1\.0; pass a sequence of numbers"),
        (lambda r: Outcome.completed(reward="good"), r"outcome\.reward: is 'good'; pass a number"),
        (lambda r: Outcome.censored(elapsed_s="30", reason="timeout"), r"outcome\.elapsed_s: is '30'; pass seconds"),
        (lambda r: Orchestrator(["a"], n_features=-1), "n_features: is -1; pass how many"),
        (lambda r: Orchestrator(["a"], lambda_="big"), "lambda_: is 'big'; pass 'auto' or a number"),
        (lambda r: r.decide(Task(), eligible="a"), r"eligible: is the text 'a'; pass a list: \['a'\]"),
    ],
)
def test_wrong_types_are_named_with_a_remedy(wrong, said):
    router = Orchestrator(["a", "b"])
    with pytest.raises(InvalidInputError, match=said):
        wrong(router)


class Halves(Policy):
    """Probabilities that do not sum to one."""

    id = "halves"

    def schema(self, n_features):
        return {}

    def choose(self, state, situation):
        half = np.full(situation.penalty.shape, 0.5)
        return Choice(half, half, half)

    def update(self, state, feedback):
        """Nothing."""


def test_probabilities_that_do_not_sum_to_one_are_refused():
    router = Orchestrator(["a", "b", "c"], Halves())
    with pytest.raises(InvalidInputError, match=r"policy: returned probabilities that sum to 1\.49; run check_policy"):
        router.decide(Task())
    assert not router.pending
