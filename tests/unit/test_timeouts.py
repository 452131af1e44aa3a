"""Outcomes without a reward: an agent that runs out of its own time earns zero, a caller's haste teaches nothing."""

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.agents.endings import Ending
from bot_orch.core.reward import BoundedReward
from bot_orch.evaluation.rounds import collect
from bot_orch.eventlog.events import Configured, FeedbackGiven, encode_event, kind_of, record_decision, record_task
from bot_orch.eventlog.log import Row
from bot_orch.eventlog.stores.memory import MemoryLog
from bot_orch.policies.registry import make_policy
from bot_orch.policies.schedules import Constant
from bot_orch.rng import generator

POLICIES = ("auto", "ucb1", "linucb", "lints", "thompson-beta", "epsilon-greedy")
SILENT = ("deadline", "cancelled", "unanswered", "shutdown", "horizon", "nobody answered")


def late_share(policy, agents, reason="timeout", rounds=500):
    """Share of the last 200 rounds that go to an agent whose every call is cut off."""
    width = 3 if policy in ("linucb", "lints") else 0
    worth = dict(zip(["hangs", "a", "b", "c"][:agents], [0.0, 0.7, 0.5, 0.6][:agents], strict=True))
    # half of its usual exploration: of that alone, one agent of two gets a twentieth
    made = make_policy(policy, epsilon=Constant(0.05)) if policy == "epsilon-greedy" else policy
    router, rng, chosen = Orchestrator(worth, made, n_features=width, floor=0.0, seed=4), generator("hangs"), []
    for number in range(rounds):
        decision = router.decide(Task(f"t-{number}", features=tuple(rng.uniform(-1, 1, width))))
        earned = float(rng.random() < worth[decision.agent])
        hung = Outcome.censored(elapsed_s=30.0, reason=reason)
        router.observe(decision.id, hung if decision.agent == "hangs" else Outcome.completed(reward=earned))
        chosen.append(decision.agent)
    return chosen[-200:].count("hangs") / 200


@pytest.mark.parametrize("agents", [2, 4])
@pytest.mark.parametrize("policy", POLICIES)
def test_an_agent_that_always_times_out_loses_its_traffic(policy, agents):
    assert late_share(policy, agents) < 0.05


def test_control_where_nothing_is_learned_it_would_keep_them(monkeypatch):
    monkeypatch.setattr(BoundedReward, "ran_out", staticmethod(lambda outcome: False))
    assert max(late_share(policy, 4) for policy in POLICIES) > 0.5


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
def test_silence_is_not_zero(reason):
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
    assert zero == {Ending.TIMEOUT_FIRST_BYTE, Ending.TIMEOUT_TOTAL}


def test_a_timeout_scores_zero_in_an_evaluation_and_silence_does_not_score():
    router, log, reasons = (
        Orchestrator(["a", "b"], "random", floor=0.0),
        MemoryLog(),
        ["timeout", "deadline", "timeout"],
    )
    events = [(Configured(router.to_json()), "")]
    for number, reason in enumerate(reasons):
        made = router.decide(Task(f"t{number}"))
        events.append((record_decision(made.id, made, record_task(Task(f"t{number}"))), made.id))
        told = FeedbackGiven(f"f{number}", made.id, "learned", None, 9.0, completed=False, reason=reason)
        events.append((told, made.id))
    events.append((FeedbackGiven("late", events[-1][1], "revision", 0.3), events[-1][1]))
    log.append([Row(i, i, kind_of(e), ref, encode_event(e)) for i, (e, ref) in enumerate(events, 1)])
    log.commit()
    rounds = collect(log)
    assert rounds.scored()[0] == [0, 2] and rounds.missing == 1
    assert np.allclose(rounds.scored()[1].reward, [0.0, 0.3])
