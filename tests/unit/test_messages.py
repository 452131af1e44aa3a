"""Messages that name the argument at fault and the remedy, where a new user was misled."""

import pytest

from bot_orch import (
    Agent,
    Budget,
    InvalidInputError,
    Labels,
    Orchestrator,
    Outcome,
    Router,
    Samples,
    Task,
    UnknownDecisionError,
)
from bot_orch.errors import UnknownAgentError


def test_an_audit_that_nobody_asked_for():
    router = Orchestrator(["a", "b"], "ucb1")
    made = router.decide(Task())
    with pytest.raises(InvalidInputError, match=f"audit: is True, and decision {made.id} is not marked for an audit; "):
        router.observe(made.id, Outcome.completed(1.0), audit=True)
    router.observe(made.id, Outcome.completed(1.0))
    with pytest.raises(UnknownDecisionError, match="it was not marked for an audit, or its audit was already observed"):
        router.observe(made.id, Outcome.completed(1.0), audit=True)


def test_an_audit_of_a_durable_router(tmp_path):
    with Router(["a", "b"], "ucb1", path=tmp_path / "log") as router:
        made = router.decide(Task())
        router.observe(made.id, Outcome.completed(1.0))
        with pytest.raises(UnknownDecisionError, match="it was not marked for an audit"):
            router.observe(made.id, Outcome.completed(1.0), audit=True)


def test_tasks_of_another_number_than_rows():
    evaluations = {"a": [1.0, 0.0], "b": [0.0, 1.0]}
    for tasks in ([Task(text="x")] * 3, [Task(features=(1.0,))] * 3, [Task()]):
        with pytest.raises(InvalidInputError, match=f"^tasks: are {len(tasks)}, and evaluations have 2 rows; pass one"):
            Orchestrator(["a", "b"]).learn_from(evaluations, tasks=tasks)
    with pytest.raises(InvalidInputError, match="^features: are given with tasks"):
        Orchestrator(["a", "b"]).learn_from(evaluations, tasks=[Task()] * 2, features=[[1.0], [2.0]])


@pytest.mark.parametrize("value", [None, "0.5", [None], object(), [[1.0], [1.0, 2.0]]])
def test_samples_that_are_no_numbers(value):
    with pytest.raises(InvalidInputError, match="^values: is .*; pass a number or a list of numbers$"):
        Samples(value)


def test_rounding_beyond_the_range_is_clipped():
    """A mean of ones can be 1.0000000000000002, and a difference that is zero -1e-17."""
    slightly, below = 1.0000000000000002, -1e-17
    one, other = (Orchestrator(["a", "b"], seed=1) for _ in range(2))
    for router, reward, nothing in ((one, slightly, below), (other, 1.0, 0.0)):
        router.observe(router.decide(Task()).id, Outcome.completed(reward=reward))
        router.observe_all(router.decide(Task()).id, {"a": reward, "b": nothing})
        router.learn_from({"a": [reward], "b": [0.5]})
    assert one.fingerprint() == other.fingerprint()
    routed = Router({"a": lambda task: "x"}, judge=lambda task, answer: slightly).call(Task())
    assert routed.outcome.reward == 1.0
    for wrong in (1.0 + 1e-6, -1e-6, float("nan")):
        with pytest.raises(InvalidInputError, match="outcome.reward"):
            one.checked(Outcome.completed(reward=wrong))


def test_a_reward_given_as_text():
    with pytest.raises(InvalidInputError, match=r"^outcome.reward: is '0.5'; pass a number$"):
        Outcome.completed("0.5")
    message = r"^outcome.reward: is 5.0, outside of \[0, 1\]; rescale it, or state the range that rewards have: Bounded"
    with pytest.raises(InvalidInputError, match=message):
        Orchestrator(["a", "b"]).checked(Outcome.completed(5))


def test_profiles_and_claims_of_unknown_agents_are_refused():
    router = Orchestrator(["a", "b"], "ucb1")
    for task in (Task(profiles={"c": Labels([0.5, 0.5])}), Task(claims={"c": 0.5})):
        for use in (router.decide, router.prepare):
            with pytest.raises(InvalidInputError, match=r"^task\.(profiles|claims).*c.*a.*b"):
                use(task)
    with pytest.raises(UnknownAgentError, match=r"^task\.profiles\.c: is no agent; choose from"):
        router.decide(Task(profiles={"a": Labels([0.5, 0.5]), "c": Labels([0.5, 0.5])}))
    assert router.pending == ()


def test_a_budget_below_every_price_is_refused():
    agents = [Agent("a", price=0.02), Agent("b", price=0.1)]
    with pytest.raises(InvalidInputError, match=r"^constraints.budget.usd: is 0.01 per task, and 'a', the cheapest"):
        Orchestrator(agents, constraints=Budget(1.0, per=100))
    Orchestrator(agents, constraints=Budget(0.02))
    Orchestrator([*agents, "unpriced"], constraints=Budget(0.01))  # it may be cheap


def test_the_repr_says_when_lessons_were_dropped():
    router = Orchestrator(["a", "b"], "ucb1", seed=1)
    router.learn_from({"a": [0.0] * 100, "b": [1.0] * 100})
    assert "ucb1 (warm start), " in repr(router)
    for _ in range(100):
        made = router.decide(Task())
        router.observe(made.id, Outcome.completed(1.0 if made.agent == "a" else 0.0))
    assert "ucb1 (warm start, lessons dropped), 100 rounds" in repr(router)
