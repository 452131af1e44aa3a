"""Prices without an objective break ties, and say that they do nothing else."""

import warnings

import numpy as np
import pytest

from bot_orch import Agent, Budget, Objective, Orchestrator, Outcome, Quality, Router, Task
from bot_orch.errors import BotOrchWarning, PriceWarning
from bot_orch.numerics.choice import cheapest_of_ties

PRICED = [Agent("dear", price=0.1), Agent("cheap", price=0.01)]
UNTOLD = pytest.mark.filterwarnings("ignore:agents.price")


def lived(agents, rounds, *, policy="auto", reward=1.0, seed=2):
    router, asked = Orchestrator(agents, policy, seed=seed, ids="derived"), []
    for number in range(rounds):
        decision = router.decide(Task(str(number)))
        asked.append(decision.agent)
        router.observe(decision.id, Outcome.completed(reward))
    return router, asked


@pytest.mark.parametrize("make", [Orchestrator, Router])
def test_a_warning_names_both_choices(make):
    with pytest.warns(PriceWarning, match=r"agents.price.*Objective\(usd=.*Quality\(within=") as seen:
        make(PRICED)
    assert len(seen) == 1 and seen[0].filename == __file__ and issubclass(PriceWarning, BotOrchWarning)
    with pytest.warns(PriceWarning, match=r"constraints.budget: no agent has a price.*cost_usd="):
        Orchestrator(["a", "b"], constraints=Budget(0.01))
    Orchestrator(PRICED, constraints=Budget(0.05))
    with pytest.warns(PriceWarning, match=r"constraints.quality: no agent has a price.*Objective\(usd="):
        make(["a", "b"], constraints=Quality(within=0.02))


def test_no_warning_where_dollars_count_and_none_for_a_state_that_is_loaded():
    for wants in ({"objective": Objective(usd=1.0)}, {"cost_weight": 1.0}, {"constraints": Quality(0.02)}):
        Orchestrator(PRICED, **wants)
    Orchestrator(PRICED, constraints=Budget(0.05))
    Orchestrator(["a", "b"])
    Orchestrator([Agent("alone", price=0.1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        saved = Orchestrator(PRICED).to_json()
    Orchestrator.from_json(saved)


@UNTOLD
@pytest.mark.parametrize("policy", ["auto", "ucb1", "thompson-beta"])
def test_before_any_outcome_the_cheaper_agent_is_chosen(policy):
    for agents in (PRICED, PRICED[::-1]):
        decision = Orchestrator(agents, policy).prepare(Task())
        assert dict(zip(decision.agents, decision.propensities, strict=True))["cheap"] == pytest.approx(0.99)


@UNTOLD
def test_of_equal_agents_the_cheaper_one_gets_most_tasks():
    """Agents tie where exploration is the same, too: at times the one that was asked less often is due."""
    priced, even = (
        sum(lived(agents, 400, seed=seed)[1].count("cheap") for seed in range(3)) / 1200
        for agents in (PRICED, ["dear", "cheap"])
    )
    assert priced > 0.58 and 0.4 < even < 0.55


@UNTOLD
def test_a_better_agent_is_no_tie_and_a_worthless_one_keeps_nobody_from_trials():
    router = Orchestrator(PRICED, seed=1)
    asked = []
    for number in range(200):
        decision = router.decide(Task(str(number)))
        asked.append(decision.agent)
        router.observe(decision.id, Outcome.completed(0.9 if decision.agent == "dear" else 0.8))
    assert asked[100:].count("dear") > 90
    untried = Orchestrator(PRICED, "bot", seed=1)
    assert untried.prepare(Task()).propensities == pytest.approx([0.5, 0.5])


@UNTOLD
def test_uniform_choice_and_equal_prices_stay_as_they_are():
    assert Orchestrator(PRICED, "random").prepare(Task()).propensities == pytest.approx([0.5, 0.5])
    same = [Agent("a", price=0.1), Agent("b", price=0.1)]
    assert lived(["a", "b"], 100)[1] == lived(same, 100)[1]


def test_ties_of_a_batch():
    p = np.array([[0.4, 0.4, 0.2], [0.1, 0.45, 0.45], [0.6, 0.4, 0.0]])
    score = np.array([[0.5, 0.5, 0.5], [0.1, 0.5, 0.5], [0.502, 0.5, 0.5]])
    bonus = np.array([[0.0] * 3, [0.1, 0.1, 0.2], [0.1] * 3])
    found = cheapest_of_ties(p, score, bonus, price=np.array([0.2, 0.1, 0.05]))
    assert found == pytest.approx(np.array([[0.0, 0.8, 0.2], [0.1, 0.45, 0.45], [0.0, 1.0, 0.0]]))
    unknown = cheapest_of_ties(p[0], score[0], bonus[0], price=np.array([0.2, np.nan, 0.05]))
    assert unknown == pytest.approx(p[0])
