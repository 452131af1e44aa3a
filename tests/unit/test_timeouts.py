"""Outcomes without a reward: agents that never complete lose their traffic, a caller's haste teaches nothing."""

from functools import cache

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.agents.endings import Ending
from bot_orch.core.completion import Completion, OutcomeEffect
from bot_orch.core.engine import ENGINE
from bot_orch.core.events import Configured, FeedbackGiven, record_decision, record_task
from bot_orch.core.reward import BoundedReward
from bot_orch.evaluation.rounds import collect
from bot_orch.log.events import encode_event
from bot_orch.log.log import Row
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.numerics.schedules import Constant
from bot_orch.policies.registry import make_policy
from bot_orch.rng import generator

POLICIES = ("auto", "ucb1", "linucb", "lints", "thompson-beta", "epsilon-greedy", "bot")
SILENT = ("deadline", "cancelled", "unanswered", "shutdown", "horizon")
HORIZON = 10
ENDINGS = {
    "timeout": Outcome.censored(elapsed_s=30.0, reason="timeout"),
    "unanswered": Outcome.censored(elapsed_s=30.0, reason="unanswered"),
    "a caller in haste": Outcome.censored(elapsed_s=0.1, reason="cancelled"),
    "rate limited": Outcome.censored(elapsed_s=0.1, reason="not_applicable"),
    "never": None,
    "zero": Outcome.completed(0.0),
    "zero late": Outcome.completed(0.0),
}


@cache
def shares(policy, agents, ending, *, timed=False, rounds=500):
    """Share of all rounds and of the last 200 that go to an agent whose every call ends like this."""
    width = 3 if policy in ("linucb", "lints") else 0
    worth = dict(zip(["hangs", "a", "b", "c"][:agents], [0.0, 0.7, 0.5, 0.6][:agents], strict=True))
    # half of its usual exploration: of that alone, one agent of two gets a twentieth
    made = make_policy(policy, epsilon=Constant(0.05)) if policy == "epsilon-greedy" else policy
    router = Orchestrator(worth, made, n_features=width, seed=4, horizon=HORIZON)
    rng, chosen, due = generator("hangs"), [], {}
    for number in range(rounds):
        decision = router.decide(Task(f"t-{number}", features=tuple(rng.uniform(-1, 1, width))))
        earned, elapsed_s = float(rng.random() < worth[decision.agent]), float(0.2 + rng.exponential())
        outcome = Outcome.completed(earned, elapsed_s=elapsed_s if timed else None)
        if decision.agent == "hangs":
            outcome = ENDINGS[ending]
        if outcome is not None:
            late = HORIZON - 1 if decision.agent == "hangs" and ending == "zero late" else 0
            due.setdefault(number + late, []).append((decision.id, outcome))
        for decision_id, owed in due.pop(number, ()):
            router.observe(decision_id, owed)
        chosen.append(decision.agent)
    return chosen.count("hangs") / rounds, chosen[-200:].count("hangs") / 200


@pytest.mark.parametrize("agents", [2, 4])
@pytest.mark.parametrize("policy", POLICIES)
def test_an_agent_that_always_times_out_loses_its_traffic(policy, agents):
    """After 500 rounds, with the default floor; in all rounds together it got no more than if zero had been paid."""
    (total, last), (paid, _) = shares(policy, agents, "timeout"), shares(policy, agents, "zero")
    assert last < 0.05
    assert total == paid


UNHEARD = ("unanswered", "a caller in haste", "rate limited", "never")
UNHEARD_CASES = [
    *((policy, ending, timed) for policy in ("ucb1", "linucb") for ending in UNHEARD for timed in (False, True)),
    *((policy, ending, False) for policy in ("thompson-beta", "epsilon-greedy") for ending in ("unanswered", "never")),
    ("auto", "unanswered", False),
    ("auto", "never", True),
]


@pytest.mark.parametrize(("policy", "ending", "timed"), UNHEARD_CASES)
def test_so_does_an_agent_of_which_nothing_else_is_ever_heard(policy, ending, timed):
    agents, paid = (4 if timed else 2), ("zero late" if ending == "never" else "zero")
    (total, last), (zero, _) = shares(policy, agents, ending, timed=timed), shares(policy, agents, paid)
    assert last < 0.05
    assert total <= zero + 0.02


@pytest.mark.parametrize("ending", ["timeout", "unanswered", "never"])
def test_control_where_nothing_is_learned_it_would_keep_them(ending, monkeypatch):
    monkeypatch.setattr(Completion, "take", lambda *_, reward, **__: OutcomeEffect(reward))
    monkeypatch.setattr(BoundedReward, "ran_out", staticmethod(lambda outcome: False))
    assert max(shares.__wrapped__(policy, 4, ending)[1] for policy in ("ucb1", "linucb")) > 0.5


def estimate_after(reason):
    """The estimate of an agent that earned 1 twice and was cut off in between."""
    router = Orchestrator(["a", "b"], "ucb1", floor=0.0, seed=3)
    for outcome in (
        Outcome.completed(reward=1.0),
        Outcome.censored(elapsed_s=30.0, reason=reason),
        Outcome.completed(reward=1.0),
    ):
        router.observe(router.decide(Task("x"), eligible=["a"]).id, outcome)
    return router.derive(Task("y")).terms.estimate[0]


@pytest.mark.parametrize("reason", SILENT)
def test_silence_is_not_zero_where_nothing_is_known_to_compare_it_with(reason):
    assert estimate_after(reason) == 1.0


@pytest.mark.parametrize("reason", ["timeout", "Timeout"])
def test_the_agents_own_limit_is_zero(reason):
    assert estimate_after(reason) == pytest.approx(2 / 3)


def test_a_reward_given_with_a_timeout_counts():
    assert BoundedReward().read({}, 0, Outcome(False, 0.4, 30.0, "timeout")) == 0.4


def test_which_endings_earn_zero_without_a_reward():
    zero = {
        e for e in Ending if e.meaning.attempted and BoundedReward.ran_out(Outcome(False, None, 1.0, e.meaning.reason))
    }
    assert zero == {Ending.TIMEOUT_FIRST_BYTE, Ending.TIMEOUT_IDLE, Ending.TIMEOUT_TOTAL}


def test_a_timeout_scores_zero_in_an_evaluation_and_silence_does_not_score():
    router, log, reasons = (
        Orchestrator(["a", "b"], "random", floor=0.0),
        MemoryLog(),
        ["timeout", "deadline", "timeout"],
    )
    events = [(Configured(router.to_json(), ENGINE), "")]
    for number, reason in enumerate(reasons):
        made = router.decide(Task(f"t{number}"))
        events.append((record_decision(made, record_task(Task(f"t{number}"))), made.id))
        told = FeedbackGiven(f"f{number}", made.id, "learned", None, 9.0, completed=False, reason=reason)
        events.append((told, made.id))
    events.append((FeedbackGiven("late", events[-1][1], "revision", 0.3), events[-1][1]))
    log.append([Row(i, i, e.kind, ref, encode_event(e)) for i, (e, ref) in enumerate(events, 1)])
    log.commit()
    rounds = collect(log)
    assert rounds.scored()[0] == [0, 2] and rounds.missing == 1
    assert np.allclose(rounds.scored()[1].reward, [0.0, 0.3])
