"""A reward that replaces a silence is charged once: what the silence was charged with is taken back."""

import numpy as np
import pytest

from bot_orch import Agent, Budget, Capacity, Deadline, Objective, Orchestrator, Outcome, Quality, Task

LIMITS = [Budget(0.002), Deadline(8.0, 0.2), Quality(0.1), Capacity("b", 0.4)]
SILENCE = {
    "nothing heard": Outcome.censored(elapsed_s=None, reason="horizon"),
    "hung up early": Outcome.censored(elapsed_s=2.0, reason="cancelled"),
    "timed out": Outcome.censored(elapsed_s=9.0, reason="timeout"),
    "paid and hung up": Outcome.censored(elapsed_s=2.0, reason="cancelled", cost_usd=0.004),
    "not yet judged": Outcome.completed(elapsed_s=9.0, cost_usd=0.004),
}
LATE = Outcome.completed(0.7, elapsed_s=9.0, cost_usd=0.004)


def warm():
    agents = [Agent("a", price=0.001), Agent("b", price=0.004)]
    wanted = Objective(usd=0.1, seconds=0.001)
    router = Orchestrator(agents, "ucb1", constraints=LIMITS, objective=wanted, seed=2)
    for number in range(80):
        decision = router.decide(Task())
        outcome = Outcome.completed(0.5, elapsed_s=1.0 + number % 10, cost_usd=0.001 + 0.003 * (decision.agent == "b"))
        router.observe(decision.id, outcome)
    return router, router.decide(Task())


def state(router, *names):
    parts = router._state.parts
    return {(part, name): parts[part][name].copy() for part in parts for name in names if name in parts[part]}


@pytest.mark.parametrize("silence", SILENCE.values(), ids=SILENCE)
def test_a_late_reward_is_charged_as_if_it_had_come_at_once(silence):
    """Balances, mean dollars, mean seconds and P(late) are those of the outcome alone."""
    once, decision = warm()
    once.observe(decision.id, LATE)
    twice, decision = warm()
    twice.observe(decision.id, silence)
    twice = Orchestrator.from_json(twice.to_json())  # what was charged is part of the state
    twice.observe(decision.id, LATE)
    names = ("balance", "usd", "seconds", "late", "total")
    expected, found = state(once, *names), state(twice, *names)
    assert {part for part, _ in expected} >= {"prices", "seconds", "evidence"} and len(expected) == 8
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=1e-9), key
    for part in ("prices", "seconds"):
        assert (twice._state.parts[part]["outcomes"] == once._state.parts[part]["outcomes"]).all()


def test_a_silence_is_charged_as_expected():
    """One expected call is taken off the budget, none is left pending."""
    router, decision = warm()
    before = state(router, "balance")
    router.observe(decision.id, SILENCE["nothing heard"])
    after = state(router, "balance")
    price = {"a": 0.001, "b": 0.004}[decision.agent]
    budget = next(key for key in before if "Budget" in key[0])
    assert before[budget] - after[budget] == pytest.approx(price / 0.002, rel=1e-6)
    assert np.isfinite(list(after.values())).all()


def test_without_constraints_a_silence_keeps_no_time():
    router = Orchestrator(["a", "b"], "ucb1")
    decision = router.decide(Task())
    router.observe(decision.id, SILENCE["hung up early"])
    assert '"elapsed_s"' not in router.to_json()
