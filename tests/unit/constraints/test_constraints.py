"""Constraints: closed forms, limits that hold, and nothing changes where there is none."""

from dataclasses import replace

import numpy as np
import pytest
from limited_worlds import World, play

from bot_orch import Agent, InvalidInputError, Orchestrator, Outcome, Task
from bot_orch.arrays import allocate
from bot_orch.core.constraints import (
    Budget,
    Capacity,
    Deadline,
    Objective,
    Quality,
    constraint_from_spec,
    constraint_to_spec,
)
from bot_orch.core.constraints.curve import GRID, Multiplier
from bot_orch.core.engine import Observation
from bot_orch.core.settings import Settings
from bot_orch.policies.registry import make_policy

TWO = World(quality=(0.5, 0.9), price=(0.001, 0.003), seconds=(1.0, 1.0), noisy=False)
LATER = slice(200, None)


@pytest.mark.parametrize("policy", ["auto", "ucb1", "linucb", "lints", "thompson-beta", "epsilon-greedy", "bot"])
def test_two_agents_the_optimal_mix_is_met(policy):
    """At 0.0015 dollars a task the dear agent gets a quarter of the tasks, whatever the policy."""
    rounds = 500 if policy == "auto" else 800
    found = play(TWO, policy, [Budget(0.0015)], rounds=rounds)
    share, spent = found.agent[LATER].mean(axis=0), found.usd[LATER].mean(axis=0)
    assert spent == pytest.approx(0.0015, rel=0.02)
    assert share == pytest.approx(0.25, abs=0.012)
    assert found.reward[LATER].mean() == pytest.approx(0.6, abs=0.005)  # the hull at that budget


@pytest.mark.parametrize("floor", [0.0, 0.02])
@pytest.mark.parametrize("policy", ["ucb1", "lints", "bot"])
def test_a_limit_that_never_binds_changes_no_decision(policy, floor):
    world = World(drift=True, n_features=2, weights=((0.1, 0.0), (0.0, 0.1), (0.0, 0.0), (-0.1, 0.0)))
    plain = play(world, policy, [], rounds=300, floor=floor)
    loose = play(world, policy, [Budget(100.0), Deadline(1e6, 0.5)], rounds=300, floor=floor)
    assert (plain.agent == loose.agent).all()
    assert np.abs(plain.propensities - loose.propensities).max() < 1e-12
    assert not any(name.startswith(("constraint", "guard", "prices", "seconds")) for name in plain.parts)


@pytest.mark.parametrize(("policy", "late"), [("ucb1", 0), ("ucb1", 40), ("bot", 0)])
def test_limits_hold_while_rewards_and_prices_drift(policy, late):
    world = World(drift=True)
    limits = [Budget(0.0015), Capacity("3", 0.1), Deadline(8.0, 0.12)]
    found = play(world, policy, limits, rounds=1800, seeds=3, floor=0.02, late=late)
    assert (found.usd.mean(axis=0) <= 1.02 * 0.0015).all()
    assert ((found.agent == 3).mean(axis=0) <= 1.02 * 0.1).all()
    assert ((found.seconds > 8.0).mean(axis=0) <= 1.03 * 0.12).all()
    free = play(world, policy, [], rounds=300, seeds=3)
    assert free.usd.mean() > 1.5 * 0.0015  # without limits they would not hold


def test_spending_is_smooth_and_lasts_to_the_end():
    found = play(World(), "ucb1", [Budget(0.0015)], rounds=2000, seeds=4)
    windows = found.usd[500:].reshape(5, 300, 4).mean(axis=1) / 0.0015
    assert windows.min() > 0.7 and windows.max() < 1.3
    assert (found.agent[-300:] >= 2).any(axis=0).all()  # the dear agents are still used


def test_a_capacity_is_used_up_and_kept():
    found = play(World(quality=(0.5, 0.9)), "ucb1", [Capacity("1", 0.2)], rounds=1500)
    assert found.agent[LATER].mean(axis=0) == pytest.approx(0.2, abs=0.005)


def test_a_capacity_goes_to_the_tasks_that_need_it():
    """The person is right on every task, the model where the feature is high: the person gets the low quarter."""
    rng = np.random.default_rng(1)
    router = Orchestrator(
        ["model", "person"], "lints", n_features=1, floor=0.0, constraints=[Capacity("person", 0.25)], seed=1
    )
    asked, x = [], rng.uniform(-1.0, 1.0, size=1500)
    for each in x:
        decision = router.decide(Task(features=(each,)))
        asked.append(decision.agent == "person")
        right = 0.95 if asked[-1] else 0.5 + 0.45 * each
        router.observe(decision.id, Outcome.completed(reward=right))
    asked, x = np.array(asked[500:]), x[500:]
    assert asked.mean() == pytest.approx(0.25, abs=0.01)
    assert x[asked].mean() < -0.65  # the lowest quarter has mean -0.75, a random one 0


@pytest.mark.parametrize("policy", ["auto", "thompson-beta"])
def test_quality_within_ten_percent_of_the_best_at_least_cost(policy):
    """Agents of 0.95, 0.8 and 0.3: the cheapest mix with a mean of 0.9 * 0.95 is of the first two."""
    world = World(quality=(0.95, 0.8, 0.3), price=(0.01, 0.002, 0.0001), seconds=(1.0,) * 3, noisy=False)
    found = play(world, policy, [Quality(0.1)], rounds=700)
    late = slice(300, None)
    share = (0.95 - 0.9 * 0.95) / (0.95 - 0.8)
    cheapest = share * 0.002 + (1.0 - share) * 0.01
    assert found.reward[late].mean() > 0.9 * 0.95 - 0.01
    assert found.usd[late].mean() < (1.15 if policy == "auto" else 1.5) * cheapest


def test_propensities_are_those_of_the_draw():
    found = play(World(), "bot", [Budget(0.0015), Capacity("3", 0.1)], rounds=200, floor=0.05)
    engine, parts = found.engine, found.parts
    one = {name: {key: value[:1] for key, value in part.items()} for name, part in parts.items()}
    u = (np.arange(4000) + 0.5) / 4000
    o = Observation(201, np.zeros((1, 4)), names=tuple("0123"))
    p = engine.prepare(one, o, np.array([0.5])).drawn.propensities[0]
    drawn = np.array([engine.prepare(one, o, np.array([each])).drawn.agent[0] for each in u[::10]])
    assert p.sum() == pytest.approx(1.0, abs=1e-12) and (p > 0).all()
    assert np.bincount(drawn, minlength=4) / len(drawn) == pytest.approx(p, abs=0.005)


@pytest.mark.filterwarnings("ignore:constraints.quality")
def test_a_batch_element_is_as_it_would_be_alone():
    world = World(n_features=2, noisy=False, cost_weights=((0.2, 0.0),) * 4, seconds=(1e-9,) * 4)
    limits = [Budget(0.0015), Capacity("3", 0.1), Quality(0.3), Deadline(8.0, 0.1)]
    twice = play(world, "lints", limits, rounds=120, seeds=2, floor=0.02)
    assert not (twice.agent[:, 0] == twice.agent[:, 1]).all()
    router = Orchestrator(
        [str(each) for each in range(4)], "lints", lambda_=0.0, n_features=2, floor=0.02, constraints=limits
    )
    rng, live = np.random.default_rng(5), []
    for t in range(120):  # the same world, lived by one router that draws what the first element drew
        x = rng.normal(size=(2, 2))
        rng.exponential(size=2)
        decision = router.prepare(Task(features=tuple(x[0])))
        live.append(decision.propensities)
        agent = int(twice.agent[t, 0])
        router.commit(replace(decision, agent=str(agent)), Task(features=tuple(x[0])))
        usd = float(twice.usd[t, 0])
        outcome = Outcome.completed(float(twice.reward[t, 0]), elapsed_s=float(twice.seconds[t, 0]), cost_usd=usd)
        router.observe(decision.id, outcome)
    assert np.abs(np.array(live) - twice.propensities[:, 0]).max() < 1e-9


def _lived(router, rounds, start=0):
    chosen = []
    for t in range(start, start + rounds):
        decision = router.decide(Task(features=((t * 7 % 11) / 11.0,)))
        usd, reward = {"small": (0.001, 0.5), "large": (0.003, 0.8), "person": (0.05, 0.95)}[decision.agent]
        router.observe(
            decision.id, Outcome.completed(reward, elapsed_s=1.0 + 9.0 * (decision.agent == "person"), cost_usd=usd)
        )
        chosen.append(decision.agent)
    return chosen


def _router(**settings):
    limits = [Budget(2.5, per=1000), Capacity("person", 0.02), Deadline(8.0), Quality(0.1)]
    return Orchestrator(
        [Agent("small", price=0.001), "large", Agent("person", price=0.05)],
        "ucb1",
        constraints=limits,
        objective=Objective(usd=0.1, seconds=0.001),
        seed=3,
        **settings,
    )


def test_state_and_settings_survive_saving():
    router = _router()
    _lived(router, 150)
    router.decide(Task(features=(0.5,)))
    copy = Orchestrator.from_json(router.to_json())
    assert copy.settings == router.settings and copy.members == router.members
    assert copy.fingerprint() == router.fingerprint()
    assert _lived(copy, 100, 150) == _lived(router, 100, 150)
    assert copy.fingerprint() == router.fingerprint()


def test_agents_come_and_go_and_limits_change():
    router = _router()
    _lived(router, 60)
    router.add_agent("new")
    router.remove_agent("large")
    router.decide(Task(features=(0.5,)))
    router.reconfigure(replace(router.settings, constraints=(Budget(0.002), Capacity("person", 0.02))), router.members)
    names = [each.constraint for each in router.decide(Task(features=(0.5,))).multipliers]
    assert names == ["budget", "capacity of person"]


def test_multipliers_are_shown_and_available():
    router = Orchestrator(
        [Agent("small", price=0.001), Agent("large", price=0.004)],
        "epsilon-greedy",
        constraints=[Budget(0.002)],
        seed=1,
    )
    for _ in range(200):
        decision = router.decide(Task())
        router.observe(decision.id, Outcome.completed(0.5 if decision.agent == "small" else 0.8))
    shown = decision.explain().splitlines()[-1]
    assert shown.startswith("  budget: multiplier ") and shown.endswith(" per dollar")
    now = router.multipliers()["budget"]
    assert now == pytest.approx(100.0, rel=0.35)  # 0.3 more reward for 0.003 more dollars
    assert "multiplier" not in Orchestrator(["a", "b"]).decide(Task()).explain()


def test_a_price_known_in_advance_spares_the_first_call():
    """One call of the dear agent costs 500 tasks' allowance: with its price known, it is never asked."""

    def calls(price):
        router = Orchestrator(
            [Agent("cheap", price=1e-5), Agent("dear", price=price)], "ucb1", floor=0.02, constraints=[Budget(2e-5)]
        )
        count = 0
        for _ in range(300):
            decision = router.decide(Task())
            dear = decision.agent == "dear"
            router.observe(decision.id, Outcome.completed(0.9, cost_usd=0.01 if dear else 1e-5))
            count += dear
        return count

    assert calls(0.01) == 0
    assert 1 <= calls(None) <= 2


def test_useless_features_do_not_push_the_reward_below_the_hull():
    """An overfitting policy with thirty features of noise: the guard falls back to the agents' means."""
    world = World(quality=(0.4, 0.8), price=(0.001, 0.003), seconds=(1.0, 1.0), n_features=30)
    policy = make_policy("linucb", scale=0.1, ridge=0.01)
    found = play(world, policy, [Budget(0.002)], rounds=1000, seeds=4)
    guard = found.parts["guard"]
    assert (guard["explained"] / guard["spread"] < 0.2).all()  # the features predict nothing
    hull, late = 0.6, slice(500, None)
    assert found.reward[late].mean() > hull - 0.02
    assert (found.usd[late].mean(axis=0) < 1.03 * 0.002).all()


def test_the_multiplier_alternates_between_neighbours_to_meet_the_target():
    """A usage curve with one step from 3 to 0.5: a fifth of the decisions takes the lower multiplier."""
    multiplier = Multiplier()
    state = allocate(multiplier.schema, (), 1)
    step_at = 50
    curve = np.where(np.arange(len(GRID)) < step_at, 3.0, 0.5)
    chosen = []
    for _ in range(400):
        step = multiplier.step(state, np.zeros(()))
        chosen.append(float(step.multiplier))
        multiplier.commit(state, step, curve, expected=np.array(1.0), lump=np.array(1.0), pending=np.zeros(()))
        state["balance"][...] = 0.0
    low = np.isclose(chosen[1:], GRID[step_at - 1])
    assert set(np.round(chosen[1:], 12)) <= set(np.round(GRID[step_at - 1 : step_at + 1], 12))
    assert low.mean() == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize(
    "constraint", [Budget(5.0, per=1000), Capacity("person", 0.2), Deadline(8.0, 0.05), Quality(0.02)]
)
def test_specs_are_read_back(constraint):
    assert constraint_from_spec(constraint_to_spec(constraint)) == constraint
    settings = Settings(make_policy("ucb1"), constraints=(constraint,), objective=Objective(usd=2.0, seconds=0.1))
    assert Settings.from_spec(settings.spec()) == settings


def test_older_documents_are_read_and_plain_ones_do_not_change():
    document = Settings(make_policy("ucb1")).spec()
    assert "objective" not in document and "constraints" not in document
    assert Settings.from_spec(document) == Settings(make_policy("ucb1"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Budget(0.0), "budget.usd"),
        (lambda: Budget(1.0, per=0), "budget.per"),
        (lambda: Capacity("", 0.2), "capacity.agent"),
        (lambda: Capacity("a", 20), "capacity.share"),
        (lambda: Deadline(-1.0), "deadline.seconds"),
        (lambda: Quality(0.0), "quality.within"),
        (lambda: Objective(quality=0.0), "objective.quality"),
        (lambda: Objective(usd=-1.0), "objective.usd"),
        (lambda: Agent("a", price=-0.1), "agent.price"),
        (lambda: constraint_from_spec({"kind": "wish"}), "constraint.kind"),
        (lambda: constraint_from_spec({"kind": "budget", "eur": 1}), "budget.eur"),
        (lambda: constraint_from_spec({"kind": "capacity", "share": 0.2}), "capacity"),
        (lambda: Orchestrator(["a"], constraints=[Budget(1.0), Budget(2.0)]), "constraints"),
        (lambda: Orchestrator(["a", "b"], constraints=[Capacity("c", 0.2)]), "constraints.capacity.agent"),
        (lambda: Orchestrator(["a"], cost_weight=1.0, objective=Objective(usd=1.0)), "cost_weight"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(InvalidInputError, match=f"^{words}: .*; "):
        make()


def test_the_objective_weighs_dollars_and_seconds():
    def share(objective):
        router = Orchestrator(["slow", "dear"], "ucb1", objective=objective, floor=0.0)
        count = 0
        for _ in range(300):
            decision = router.decide(Task())
            slow = decision.agent == "slow"
            router.observe(
                decision.id, Outcome.completed(0.5, elapsed_s=10.0 if slow else 1.0, cost_usd=0.0 if slow else 0.1)
            )
            count += slow
        return count / 300

    assert share(Objective(usd=20.0)) > 0.9 and share(Objective(seconds=0.2)) < 0.1
    assert share(Objective(quality=10.0, usd=200.0)) == share(Objective(usd=20.0))  # only ratios matter
    assert 0.3 < share(Objective()) < 0.7


def test_cost_weight_is_the_objective_by_another_name():
    plain = Orchestrator(["a", "b"], cost_weight=2.0).settings.weights
    assert plain == Orchestrator(["a", "b"], objective=Objective(usd=2.0)).settings.weights == Objective(usd=2.0)
