"""A/B: two policies share the traffic at random, each learns from its own, and the difference has an interval."""

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.core.ab import SplitTest
from bot_orch.errors import InvalidInputError
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.policies.registry import make_policy
from bot_orch.service.build import check
from bot_orch.service.config import parse_config
from bot_orch.service.routing.comparison import ArmSums, Comparison

TEXT = """
version: 1
database: {database}
listen: {{port: {port}}}
router: {{policy: ucb1, seed: 3, floor: 0.0, ab: {{policy: random, share: 0.4}}}}
agents: [{{id: good, kind: simulated}}, {{id: bad, kind: simulated}}]
"""


def test_an_arm_learns_from_its_own_decisions_alone():
    test = SplitTest(make_policy("ucb1"), make_policy("ucb1"), share=0.5, seed=1)
    router = Orchestrator(["x", "y"], test, seed=2)
    counts = {"a": 0, "b": 0}
    for number in range(60):
        decision = router.decide(Task(f"t-{number}"))
        router.observe(decision.id, Outcome.completed(reward=0.5))
        counts[test.arm(number + 1)] += 1
    state = router._state.parts["policy"]
    for arm in ("a", "b"):
        learned = next(array for name, array in state.items() if name.startswith(f"{arm}_") and "count" in name)
        assert float(np.sum(learned)) == counts[arm]
    assert 15 < counts["b"] < 45


def test_the_state_is_saved_and_goes_on():
    router = Orchestrator(["x", "y"], SplitTest(make_policy("bot"), make_policy("ucb1")), seed=2)
    for number in range(20):
        router.observe(router.decide(Task(f"t-{number}")).id, Outcome.completed(reward=number % 2))
    again = Orchestrator.from_json(router.to_json())
    assert again.decide(Task("next")).propensities.tolist() == router.decide(Task("next")).propensities.tolist()


def test_the_service_shows_the_difference(start, tmp_path):
    service = start(TEXT)
    assert service.get("/v1/ab").json()["difference"] is None
    for _ in range(120):
        made = service.post("/v1/decisions", {"task": {}}).json()
        service.post("/v1/feedback", {"decision_id": made["id"], "reward": 1.0 if made["agent"] == "good" else 0.0})
    found = service.get("/v1/ab").json()
    assert found["arms"]["a"]["policy"] == "ucb1@1" and found["arms"]["b"]["policy"] == "random@1"
    assert found["arms"]["a"]["decisions"] + found["arms"]["b"]["decisions"] == 120
    assert 30 <= found["arms"]["b"]["decisions"] <= 66
    low, high = found["interval"]
    assert low < found["difference"] < high < 0.0  # at random asks the bad agent half of the time
    assert "95 % interval" in service.get("/").body.decode()
    service.stop()
    checked = replay(open_log(str(tmp_path / "log.sqlite")))
    assert checked.ok and checked.derived == 120
    again = start(TEXT)
    assert again.get("/v1/ab").json() == found


def test_without_a_test_there_is_nothing_to_show(start):
    assert start().get("/v1/ab").status == 404


@pytest.mark.parametrize(
    ("ab", "message"),
    [("{policy: bot, share: 1.0}", "config.router.ab.share: is 1.0"), ("{policy: best}", "'best' is not known")],
)
def test_mistakes_are_named(ab, message):
    config = parse_config(f"version: 1\nagents: [{{id: a, kind: simulated}}]\nrouter: {{ab: {ab}}}")
    with pytest.raises(InvalidInputError) as refused:
        check(config)
    assert message in str(refused.value)


def interval_of(a, b):
    found = Comparison(SplitTest(make_policy("ucb1"), make_policy("random")))
    for arm, rewards in (("a", a), ("b", b)):
        found.arms[arm] = ArmSums(
            len(rewards), len(rewards), total=float(np.sum(rewards)), squares=float(np.sum(np.square(rewards)))
        )
    return found.difference()


@pytest.mark.parametrize(("few", "p", "q"), [(2, 0.9, 0.9), (3, 0.95, 0.5), (5, 0.2, 0.3), (10, 0.9, 0.6)])
def test_the_interval_covers_with_few_rewards_of_one_arm(few, p, q):
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(1000):
        _, low, high = interval_of(rng.random(400) < q, rng.random(few) < p)
        covered += low <= p - q <= high
    assert covered >= 930, "0.95 less three standard errors"


def test_the_interval_of_alike_rewards_is_wide_and_of_many_is_the_usual_one():
    difference, low, high = interval_of([1.0, 1.0], [0.0, 0.0])
    assert difference == -1.0 and high - low > 1.0
    assert interval_of([1.0], [0.0, 0.0]) is None
    rng = np.random.default_rng(8)
    a, b = rng.random(5000), rng.random(5000)
    difference, low, high = interval_of(a, b)
    half = 1.96 * np.sqrt(a.var() / 5000 + b.var() / 5000)
    assert (low, high) == pytest.approx((difference - half, difference + half), abs=1e-3)
