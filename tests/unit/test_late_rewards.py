"""A reward after a counted silence replaces it; decisions of which nothing is heard are dropped at a horizon."""

import re
from pathlib import Path

import numpy as np
import pytest

from bot_orch import InvalidInputError, Orchestrator, Outcome, Task
from bot_orch.core.completion.silences import REMEMBERED
from bot_orch.errors import UnknownDecisionError
from bot_orch.numerics.estimators import EMA, LastReward
from bot_orch.policies.base import Policy
from bot_orch.policies.registry import available_policies, make_policy
from bot_orch.rng import generator

OURS = [name for name, kind in available_policies().items() if kind.__module__.startswith("bot_orch.")]
CAN = [name for name in OURS if make_policy(name).can_revise and name != "auto"]  # auto: tests/unit/test_auto.py
TIMEOUT = Outcome.censored(elapsed_s=30.0, reason="timeout")
HANG_UP = Outcome.censored(elapsed_s=1.2, reason="cancelled")
UNJUDGED = Outcome.completed(elapsed_s=2.0)


def warm(policy, **settings):
    """A router with some experience of timed completions; silence at 1.2 s says something."""
    router, rng = (
        Orchestrator(["a", "b", "c"], policy, seed=5, n_features=2, ids="derived", **settings),
        generator("warm"),
    )
    for number in range(60):
        decision = router.decide(Task(f"t{number}", features=tuple(rng.normal(size=2))))
        late = number % 4 == 0
        router.observe(decision.id, TIMEOUT if late else Outcome.completed(rng.random(), elapsed_s=rng.exponential()))
    for decision_id in router.silent:
        router._state.silences.pop(decision_id)
    return router


class Nothing:
    id = "uniform"


def policies(name):
    return warm(make_policy(name), floor=0.1)


def sorted_rows(part):
    if "context_round" not in part:
        return part
    order = np.argsort(part["context_round"], kind="stable")
    kept = ("context_rows", "context_codes", "context_owner", "context_reward", "context_round")
    return part | {name: part[name][order] for name in kept if name in part}


def close(one, other):
    """Whether two states agree up to rounding, and up to the order in which kept rows arrived."""
    mine, theirs = ({name: sorted_rows(part) for name, part in each._state.parts.items()} for each in (one, other))
    return all(
        np.allclose(mine[part][name], theirs[part][name], rtol=1e-9, atol=1e-12) for part in mine for name in mine[part]
    )


def task(number):
    return Task(f"n{number}", features=(0.3, -0.2 * number))


@pytest.mark.parametrize(
    "silence", [TIMEOUT, HANG_UP, Outcome.completed(elapsed_s=2.0)], ids=["timeout", "hang-up", "time"]
)
@pytest.mark.parametrize("name", CAN)
def test_silence_then_reward_is_the_reward_alone(name, silence):
    reward = Outcome.completed(0.8, elapsed_s=40.0)
    both, alone = policies(name), policies(name)
    for router in (both, alone):
        decisions = [router.decide(task(number)) for number in range(4)]
        if router is both:
            router.observe(decisions[1].id, silence)
            assert router.silent == (decisions[1].id,)
        else:
            router.observe(decisions[1].id, reward)
        for decision in (decisions[0], decisions[2]):
            router.observe(decision.id, Outcome.completed(0.4, elapsed_s=1.0))
        if router is both:
            router.observe(decisions[1].id, reward)
            assert router.silent == () and router.pending == (decisions[3].id,)
    if not isinstance(getattr(both.policy, "estimator", None), EMA):
        assert close(both, alone)
    else:  # the weights of a moving average depend on the order of rewards
        assert np.array_equal(both._state.parts["policy"]["count"], alone._state.parts["policy"]["count"])


def test_a_late_reward_of_a_text_with_claims_is_learned():
    """Encoder and claims of the decision are kept with its silence."""
    both, alone = (Orchestrator(["a", "b"], "linucb", seed=1) for _ in range(2))
    for router in (both, alone):
        decision = router.decide(Task(text="sort a list", claims={"a": 0.9}))
        if router is both:
            router.observe(decision.id, TIMEOUT)
            router = both = Orchestrator.from_json(router.to_json())
            assert np.array_equal(router._state.silences[decision.id].decision.claims, (0.9, np.nan), equal_nan=True)
        router.observe(decision.id, Outcome.completed(0.8, elapsed_s=40.0))
    assert alone._state.parts["policy"]["response"].any() and close(both, alone)


@pytest.mark.parametrize("name", ["bot", "no-ot", "ucb1", "linucb"])
def test_at_the_place_where_the_silence_was(name):
    """Also for moving averages, where a reward weighs less the longer ago it was: silence and reward, in its place."""
    both, alone = policies(name), policies(name)
    for router, first in ((both, TIMEOUT), (alone, Outcome(False, 0.8, 30.0, "timeout"))):
        decisions = [router.decide(task(number), ["a"]) for number in range(3)]
        router.observe(decisions[0].id, first)
        for decision in decisions[1:]:
            router.observe(decision.id, Outcome.completed(0.4, elapsed_s=1.0))
    both.observe(decisions[0].id, Outcome(False, 0.8, 30.0, "timeout"))
    assert close(both, alone)


def test_which_policies_can_take_a_lesson_back():
    assert {"bot", "ucb1", "linucb"} <= set(CAN)


def test_others_learn_the_reward_as_a_further_lesson():
    router = warm(make_policy("bot", estimator=EMA(history=LastReward())), floor=0.1)
    decision = router.decide(task(0))
    router.observe(decision.id, TIMEOUT)
    index = router.agents.index(decision.agent)
    before = router.derive(task(1)).terms.estimate[index]
    router.observe(decision.id, Outcome.completed(1.0))
    assert router.derive(task(1)).terms.estimate[index] > before
    assert not router.policy.can_revise
    with pytest.raises(NotImplementedError, match="uniform cannot"):
        Policy.revise(Nothing(), {}, None, None, position=0.0)


def test_a_policy_of_ones_own_with_an_update_of_its_own_is_not_trusted_to_take_back():
    from bot_orch.policies.ucb1 import UCB1

    class Twice(UCB1):
        def update(self, state, feedback):
            UCB1.update(self, state, feedback)
            UCB1.update(self, state, feedback)

    assert UCB1().can_revise and not Twice().can_revise


def test_a_reward_is_learned_once():
    router = warm("ucb1")
    decision = router.decide(task(0))
    router.observe(decision.id, HANG_UP)
    router.observe(decision.id, Outcome.completed(1.0))
    for outcome in (Outcome.completed(1.0), TIMEOUT, HANG_UP):
        with pytest.raises(UnknownDecisionError):
            router.observe(decision.id, outcome)


def test_another_silence_replaces_none_but_a_timeout_does():
    router = warm("ucb1")
    decision = router.decide(task(0))
    router.observe(decision.id, HANG_UP)
    with pytest.raises(UnknownDecisionError):
        router.observe(decision.id, HANG_UP)
    router.observe(decision.id, TIMEOUT)
    assert router.silent == (decision.id,), "a reward may still come"


def test_silences_survive_saving_and_changes_of_agents(tmp_path):
    router = warm("ucb1", floor=0.1)
    gone, kept = router.decide(task(0), ["b"]), router.decide(task(1), ["c"])
    for decision in (gone, kept):
        router.observe(decision.id, TIMEOUT)
    router.remove_agent("b")
    router.add_agent("d")
    copy = Orchestrator.from_json(router.to_json())
    assert copy.fingerprint() == router.fingerprint() and copy.silent == (gone.id, kept.id)
    for each in (router, copy):
        before = each._state.parts["policy"]["total"].copy()
        each.observe(gone.id, Outcome.completed(1.0))
        assert np.array_equal(each._state.parts["policy"]["total"], before), "its agent was removed"
        each.observe(kept.id, Outcome.completed(1.0))
        assert (each._state.parts["policy"]["total"] - before).tolist() == [0.0, 1.0, 0.0]
    assert copy.fingerprint() == router.fingerprint()


def test_a_bounded_number_is_remembered():
    router = Orchestrator(["a", "b"], "ucb1")
    ids = []
    for number in range(REMEMBERED + 5):
        ids.append(router.decide(Task(f"t{number}")).id)
        router.observe(ids[-1], HANG_UP)
    assert router.silent == tuple(ids[5:])
    with pytest.raises(UnknownDecisionError):
        router.observe(ids[4], Outcome.completed(1.0))
    router.observe(ids[5], Outcome.completed(1.0))


def test_what_was_learned_anew_forgets_old_silences():
    router = warm("ucb1")
    decision = router.decide(task(0))
    router.observe(decision.id, TIMEOUT)
    router.reconfigure(router.settings, router.members, keep_learned=False)
    assert router.silent == ()


def test_a_cost_is_counted_once():
    router = Orchestrator(["a", "b"], "ucb1", cost_weight=1.0)
    decision = router.decide(Task())
    router.observe(decision.id, Outcome(False, None, 3.0, "timeout", None, 0.5))
    router.observe(decision.id, Outcome.completed(1.0, cost_usd=0.5))
    assert router._state.parts["prices"]["outcomes"].sum() == 1.0
    silent = router.decide(Task())
    router.observe(silent.id, TIMEOUT)
    router.observe(silent.id, Outcome.completed(1.0, cost_usd=0.5))
    assert router._state.parts["prices"]["outcomes"].sum() == 2.0


def test_decisions_of_which_nothing_is_heard_do_not_stay_pending():
    router = Orchestrator(["a", "b"], "ucb1", horizon=20, floor=0.5, seed=3)
    ids = [router.decide(Task(f"t{number}")).id for number in range(100)]
    assert router.pending == tuple(ids[-20:]) and router.silent == tuple(ids[:80])
    assert router.derive(Task()).terms.exploration.max() < 1e6 or router._waiting.sum() == 20
    copy = Orchestrator.from_json(router.to_json())
    for each in (router, copy):
        each.decide(Task("next"))
        each.observe(ids[3], Outcome.completed(1.0))  # after all
    assert copy.fingerprint() == router.fingerprint() and len(copy.pending) == 20


def test_the_default_horizon_is_ten_thousand_rounds():
    assert Orchestrator(["a"]).settings.horizon == 10_000
    assert Orchestrator(["a"], horizon=None).settings.horizon is None
    for wrong in (0, -1, 2.5):
        with pytest.raises(InvalidInputError, match="horizon"):
            Orchestrator(["a"], horizon=wrong)


def test_expire_names_what_it_drops():
    router = Orchestrator(["a", "b"], "ucb1")
    ids = [router.decide(Task(f"t{number}")).id for number in range(6)]
    assert router.expire([ids[4]]) == (ids[4],)
    assert router.expire(older_than_round=3) == (ids[0], ids[1])
    assert router.expire() == () and router.pending == (ids[2], ids[3], ids[5])
    with pytest.raises(UnknownDecisionError):
        router.expire([ids[4]])
    router.observe(ids[4], Outcome.completed(1.0))


def test_a_refused_expiry_changes_nothing():
    router = Orchestrator(["a", "b"], "ucb1")
    decision = router.decide(Task())
    before = router.fingerprint()
    with pytest.raises(UnknownDecisionError):
        router.expire([decision.id, "unknown"])
    assert router.fingerprint() == before


def test_what_the_documentation_says_of_policies_that_can_is_true():
    page = (Path(__file__).parents[2] / "docs" / "concepts" / "silence.md").read_text()
    rows = re.findall(r"^\| (`[^|]*`) \| (yes|no)\b", page, re.MULTILINE)
    listed = {name: answer == "yes" for names, answer in rows for name in re.findall(r"`([\w-]+)`", names)}
    assert listed and listed == {name: make_policy(name).can_revise for name in listed}
