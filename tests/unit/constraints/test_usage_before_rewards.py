"""Dollars and seconds that are known before the reward: learned at once, counted once."""

import numpy as np
import pytest

from bot_orch import Agent, Budget, Deadline, FirstToken, Objective, Orchestrator, Outcome, Task
from bot_orch.errors import InvalidInputError, UnknownDecisionError

AGENTS = [Agent("small", price=0.01), Agent("large", price=0.1)]
LIMITS = [Budget(0.05), Deadline(2.0), FirstToken(1.0)]


def made(**settings):
    settings = {"objective": Objective(usd=1.0, seconds=0.1, first_token=0.1), "constraints": LIMITS, **settings}
    return Orchestrator(AGENTS, "ucb1", seed=3, **settings)


def test_usage_first_is_usage_with_the_outcome():
    """With times to the first token left out, both orders learn the same of dollars and seconds."""
    early, together = (made(objective=Objective(usd=1.0, seconds=0.1), constraints=LIMITS[:2]) for _ in range(2))
    for number in range(40):
        usd, seconds = 0.01 + number / 1000, 1.0 + number % 3
        decision, other = early.decide(Task()), together.decide(Task())
        assert decision.agent == other.agent
        early.observe_usage(decision.id, cost_usd=usd, elapsed_s=seconds)
        early.observe(decision.id, Outcome.completed(0.5))
        together.observe(other.id, Outcome.completed(0.5, elapsed_s=seconds, cost_usd=usd))
    for part, arrays in together._state.parts.items():
        for name, values in arrays.items():
            np.testing.assert_array_equal(early._state.parts[part][name], values, err_msg=f"{part}.{name}")


def test_an_outcome_that_brings_usage_again_does_not_count_it_twice():
    router = made()
    decision = router.decide(Task())
    router.observe_usage(decision.id, cost_usd=0.03, elapsed_s=1.5, first_token_s=0.5)
    before = {name: {k: v.copy() for k, v in router._state.parts[name].items()} for name in ("prices", "seconds")}
    router.observe(decision.id, Outcome.completed(0.5, elapsed_s=1.5, cost_usd=0.03))
    for part, arrays in before.items():
        for name, values in arrays.items():
            np.testing.assert_array_equal(router._state.parts[part][name], values)
    assert not router.used


@pytest.mark.filterwarnings("ignore:agents.price")
def test_late_first_tokens_are_learned_and_charged():
    router = made(constraints=[FirstToken(1.0)], objective=Objective())
    for _ in range(30):
        decision = router.decide(Task())
        late = decision.agent == "large"
        router.observe_usage(decision.id, elapsed_s=0.1, first_token_s=5.0 if late else 0.1)
        router.observe(decision.id, Outcome.completed(0.9 if late else 0.6))
    late = router.expected_usage()
    name = "late: first token within 1 s"
    assert late["large"][name] > 0.5 > 0.1 > late["small"][name]
    assert router.multipliers()["first token within 1 s"] > 0.0


def test_a_state_with_known_usage_is_saved_and_restored():
    router = made()
    first, second = router.decide(Task()), router.decide(Task())
    router.observe_usage(first.id, cost_usd=0.02, first_token_s=0.25)
    again = Orchestrator.from_json(router.to_json())
    assert again.fingerprint() == router.fingerprint() and set(again.used) == {first.id}
    for each in (router, again):
        each.observe(first.id, Outcome.completed(1.0))
        each.observe(second.id, Outcome.completed(1.0))
    assert again.fingerprint() == router.fingerprint()


def test_an_expired_decision_keeps_what_it_used():
    router = made(horizon=1)
    decision = router.decide(Task())
    router.observe_usage(decision.id, cost_usd=0.02, elapsed_s=1.0)
    router.decide(Task())
    router.decide(Task())
    assert router.is_silent(decision.id) and not router.used
    assert router._state.silences[decision.id].paid


@pytest.mark.filterwarnings("ignore:agents.price")
def test_without_an_objective_usage_is_ignored():
    router = Orchestrator(AGENTS, "ucb1", seed=3)
    decision = router.decide(Task())
    before = router.fingerprint()
    router.observe_usage(decision.id, cost_usd=0.02)
    assert router.fingerprint() == before and router.expected_usage() == {"small": {}, "large": {}}


def test_what_is_refused():
    router = made()
    decision = router.decide(Task())
    for name in ("cost_usd", "elapsed_s", "first_token_s"):
        with pytest.raises(InvalidInputError, match=name):
            router.observe_usage(decision.id, **{name: -1.0})
    with pytest.raises(UnknownDecisionError):
        router.observe_usage("other", cost_usd=1.0)
    router.observe_usage(decision.id, cost_usd=1.0)
    with pytest.raises(InvalidInputError, match="known already"):
        router.observe_usage(decision.id, cost_usd=1.0)
    with pytest.raises(InvalidInputError, match="kind twice"):
        made(constraints=[FirstToken(1.0), FirstToken(2.0)])


def test_a_changed_price_rescales_what_was_learned():
    router = Orchestrator(AGENTS, "ucb1", seed=1, n_features=1, objective=Objective(usd=1.0))
    for number in range(60):
        decision = router.decide(Task(features=(number % 2,)))
        price = 0.01 if decision.agent == "small" else 0.1
        router.observe(decision.id, Outcome.completed(0.5, cost_usd=price * (1 + number % 2)))
    task = Task(features=(1.0,))
    was = router.prepare(task).terms.cost
    router.reconfigure(router.settings, [Agent("large", price=0.01), Agent("small", price=0.01)])
    now = router.prepare(task).terms.cost
    np.testing.assert_allclose(now, was * [1.0, 0.1], rtol=1e-9)
