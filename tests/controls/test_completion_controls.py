"""Callers who hang up do not move an estimate; variants that impute a zero, or a reward of nothing, are caught."""

from functools import cache

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.core.completion import Completion, OutcomeEffect
from bot_orch.core.completion.law import CompletionLaw
from bot_orch.rng import generator

ROUNDS = 2400
CASES = [
    ("ucb1", "one second"),
    ("ucb1", "exponential"),
    ("ucb1", "hangs at times"),
    ("linucb", "one second"),
    ("epsilon-greedy", "one second"),
]


def times(kind, rng):
    """Seconds to completion; infinite where the agent never completes."""
    if kind == "one second":
        return 0.5 + rng.exponential(0.5)
    if kind == "exponential":
        return rng.exponential(1.0)
    return rng.exponential(1.0) if rng.random() < 0.7 else np.inf  # "hangs at times"


def estimate(policy, kind, *, hung_up_s=None, limit_s=10.0):
    """The estimate of one agent of two, both asked in turn; its answers are worth 0.7, quick ones a bit more."""
    router, rng = Orchestrator(["a", "b"], policy, seed=1, floor=0.0), generator("hang up", kind)
    for number in range(ROUNDS):
        decision = router.decide(Task(f"t{number}"), ["ab"[number % 2]])
        t, u, impatient = times(kind, rng), rng.random(), rng.random() < 0.5
        cut = limit_s if hung_up_s is None or not impatient else hung_up_s
        if t > cut:
            reason = "timeout" if cut == limit_s else "cancelled"
            router.observe(decision.id, Outcome.censored(elapsed_s=cut, reason=reason))
        else:
            router.observe(decision.id, Outcome.completed(float(u < 0.7 + 0.1 * (t < 1.0)), elapsed_s=t))
    return float(router.derive(Task("end")).terms.estimate[0])


@cache
def undisturbed(policy, kind):
    """The estimate where nobody hangs up."""
    return estimate(policy, kind)


@pytest.mark.parametrize(("policy", "kind"), CASES)
def test_callers_who_hang_up_at_random_do_not_move_an_estimate(policy, kind):
    assert abs(estimate(policy, kind, hung_up_s=0.1) - undisturbed(policy, kind)) < 0.02


@pytest.mark.parametrize("hung_up_s", [1.0, 3.0])
def test_nor_do_those_who_hang_up_later(hung_up_s):
    """Then silence says much, and most where the agent never completes in three tenths of its calls."""
    for kind in ("exponential", "hangs at times"):
        assert abs(estimate("ucb1", kind, hung_up_s=hung_up_s) - undisturbed("ucb1", kind)) < 0.03


def test_control_imputing_zero_is_caught(monkeypatch):
    truth = undisturbed("ucb1", "one second")
    monkeypatch.setattr(Completion, "take", lambda *_, reward, **__: OutcomeEffect(reward or 0.0))
    assert truth - estimate("ucb1", "one second", hung_up_s=0.1) > 0.2


def test_control_learning_nothing_from_silence_is_caught(monkeypatch):
    """An agent that hangs at times would look better the more callers lose patience with it."""
    truth = undisturbed("ucb1", "hangs at times")
    monkeypatch.setattr(CompletionLaw, "information", lambda *_: 0.0)
    assert estimate("ucb1", "hangs at times", hung_up_s=3.0) - truth > 0.06
