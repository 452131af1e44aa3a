"""Rewards read off outcomes, inside the orchestrator."""

import numpy as np
import pytest

from bot_orch import InvalidInputError, Orchestrator, Outcome, Task
from bot_orch.core.reward import SurvivalReward


def run(router, times, cutoff=np.inf, n=200, seed=0):
    """Play with exponential completion times; what takes longer than ``cutoff`` is a timeout."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        decision = router.decide(Task())
        t = rng.exponential(times[decision.agent])
        late = t > cutoff
        seen = Outcome.censored(elapsed_s=cutoff, reason="timeout") if late else Outcome.completed(elapsed_s=t)
        router.observe(decision.id, seen)
    return dict(zip(router.agents, router.derive(Task()).terms.estimate, strict=True))


def test_pooled_curve_rewards_speed_and_own_curve_does_not():
    times = {"slow": 8.0, "quick": 2.0}
    pooled = run(Orchestrator(times, "random", reward=SurvivalReward("pooled")), times, n=600)
    own = run(Orchestrator(times, "random", reward=SurvivalReward("own")), times, n=600)
    assert pooled["quick"] - pooled["slow"] > 0.25
    assert abs(own["quick"] - own["slow"]) < 0.07
    assert own["quick"] == pytest.approx(0.5, abs=0.06)


def test_a_timeout_is_not_a_crash():
    def estimate(reason, censored="expected"):
        router = Orchestrator(["a"], "random", reward=SurvivalReward("own", censored))
        for t in np.linspace(1, 10, 40):
            router.observe(router.decide(Task()).id, Outcome.completed(elapsed_s=float(t)))
        before = router.derive(Task()).terms.estimate[0]
        router.observe(router.decide(Task()).id, Outcome.censored(elapsed_s=2.0, reason=reason))
        return 41 * router.derive(Task()).terms.estimate[0] - 40 * before

    assert estimate("timeout") == pytest.approx(0.44, abs=0.06)  # half of what is left of the curve at 2 s
    assert estimate("crash") == pytest.approx(0.0, abs=1e-9)
    assert estimate("timeout", "zero") == pytest.approx(0.0, abs=1e-9)


def test_it_is_saved_and_grows_with_the_agents():
    times = {"a": 1.0, "b": 3.0, "c": 2.0}
    router = Orchestrator(["a", "b"], "thompson-beta", reward=SurvivalReward(capacity=16), seed=3)
    run(router, times, cutoff=4.0, n=60)
    router.add_agent("c")
    copy = Orchestrator.from_json(router.to_json())
    assert run(copy, times, 4.0, 40, 1) == run(router, times, 4.0, 40, 1)
    assert copy.fingerprint() == router.fingerprint()


def test_a_survival_reward_needs_a_time():
    router = Orchestrator(["a"], reward=SurvivalReward())
    decision = router.decide(Task())
    with pytest.raises(InvalidInputError, match="outcome.elapsed_s: is missing"):
        router.observe(decision.id, Outcome.completed(reward=1.0))
    assert decision.id in router.pending
    with pytest.raises(InvalidInputError, match=r"reward\.curve"):
        SurvivalReward("nonsense")
