"""Guards against cheats in the live orchestrator: few references, agents that turn, and references by acceptance."""

from dataclasses import replace

import numpy as np
import pytest

from bot_orch import Labels, Orchestrator, Outcome, Task
from bot_orch.arrays import allocate
from bot_orch.core.alignment import Alignment, Reference, gaps
from bot_orch.core.alignment.gaps import Gaps
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.policies.auto import Auto
from bot_orch.policies.registry import make_policy
from bot_orch.rng import generator
from bot_orch.transport import Cloud
from bot_orch.transport.geometries.labels import ZeroOneLabels


def live(matrix, policy="auto", only_honest=False, **settings):
    """True rewards and the share of cheats in the second half."""
    names = [name for name in matrix.agents if not (only_honest and name.startswith("cheat"))]
    router = Orchestrator(names, policy, seed=1, **settings)
    earned, cheats = [], []
    for t in range(matrix.n_tasks):
        wanted = matrix.reference_embed[t]
        decision = router.decide(Task(reference=Cloud(wanted[None]) if np.isfinite(wanted).all() else None))
        i = matrix.agents.index(decision.agent)
        output = Cloud(matrix.output_embed[t, i][None])
        router.observe(decision.id, Outcome.completed(float(matrix.reward[t, i]), output=output))
        earned.append(matrix.true_reward[t, i])
        cheats.append(decision.agent.startswith("cheat"))
    return float(np.mean(earned)), float(np.mean(cheats[len(cheats) // 2 :]))


@pytest.mark.parametrize("cheat", ["constant", "copy"])
def test_references_for_a_tenth_of_the_tasks_hold_a_cheat(cheat):
    settings = GamingSettings(tasks=500, agents=6, cheats=(cheat,), features=0, referenced=0.1)
    matrix = gaming_matrix(settings, seed=2)
    assert 40 < np.isfinite(matrix.reference_embed[:, 0]).sum() < 100
    true, share = live(matrix)
    honest, _ = live(matrix, only_honest=True, lambda_=0.0)
    fallen, lost = live(matrix, lambda_=0.0)
    assert share < 0.05 and true >= 0.9 * honest
    assert lost > 0.9 and fallen < 0.3 * honest, "the control without alignment does not fall for it"


def sleeper_share():
    matrix = gaming_matrix(GamingSettings(tasks=800, agents=5, cheats=("sleeper",), features=0), seed=2)
    return live(matrix, "thompson-beta")[1]


def test_gaps_fade_so_that_a_sleeper_is_caught(monkeypatch):
    caught = sleeper_share()
    monkeypatch.setattr(gaps, "_RECENT", 1e9)
    assert caught < 0.15 < 0.3 < sleeper_share(), "the control with gaps that never fade"


def test_a_full_memory_of_gaps_is_the_mean_of_the_first_fifty_and_then_follows():
    state = allocate(Gaps(1).schema, (), 1)
    for value in np.linspace(0.0, 1.0, 50):
        Gaps(1).see_gap(state, np.array(0), np.array(value))
    assert state["gap"][0] == pytest.approx(0.5) and state["count"][0] == 50.0
    assert state["square"][0] == pytest.approx(np.var(np.linspace(0.0, 1.0, 50)) * 50)
    for _ in range(300):
        Gaps(1).see_gap(state, np.array(0), np.array(3.0))
    assert state["gap"][0] == pytest.approx(3.0, abs=0.01) and state["count"][0] == 50.0


GREEDY = make_policy("epsilon-greedy", epsilon=1e-12)
GAMED = {"a": (0.9, 0.6), "b": (0.85, 0.6), "cheat": (0.1, 1.0)}


def accepted(rounds=300, worth=GAMED, policy="auto", first=0):
    """Agents chosen; references are outputs with reward at least one half, the floor is 0, the last agent begins."""
    alignment = Alignment(ZeroOneLabels(2), reference=Reference("accepted"))
    router = Orchestrator(worth, policy, lambda_="auto", alignment=alignment, floor=0.0, seed=3)
    rng, names = generator("accepted"), []
    for t in range(rounds):
        decision = router.decide(Task(), eligible=list(worth)[-1:] if t < first else None)
        good, judge = worth[decision.agent]
        label = Labels([1.0, 0.0] if rng.random() < good else [0.0, 1.0])
        router.observe(decision.id, Outcome.completed(float(rng.random() < judge), output=label))
        names.append(decision.agent)
    return names, router


@pytest.mark.parametrize(("policy", "first"), [("auto", 0), (GREEDY, 10)])
def test_a_cheat_does_not_starve_the_others_of_evidence(policy, first, monkeypatch):
    names, _ = accepted(policy=policy, first=first)
    assert names[150:].count("cheat") / 150 < 0.05
    if policy == "auto":
        return  # its noise per agent finds the cheat without guaranteed exploration, too
    monkeypatch.setattr(Alignment, "starving", lambda self, parts: None)
    names, _ = accepted(policy=policy, first=first)
    assert names[150:].count("cheat") / 150 > 0.9, "the control without guaranteed exploration"


def test_guaranteed_exploration_ends():
    """Where nobody else is ever accepted, forty outputs of the others are enough."""
    worth = {"bad": (0.9, 0.0), "worse": (0.9, 0.0), "good": (0.9, 0.9)}
    names, router = accepted(300, worth, GREEDY, first=12)
    assert 40 <= 300 - names.count("good") < 45
    assert router.derive(Task()).propensities.tolist() == pytest.approx([0.0, 0.0, 1.0])


def test_propensities_with_guaranteed_exploration_are_those_drawn_from():
    _, router = accepted(10, policy=GREEDY, first=10)
    p = router.derive(Task()).propensities
    assert p.tolist() == pytest.approx([0.25, 0.25, 0.5])
    assert router.derive(Task(), eligible=["a", "cheat"]).propensities.tolist() == pytest.approx([0.5, 0.0, 0.5])


def test_the_arena_plays_audits_as_the_live_router_does():
    """Every round audited, the truth first: the same propensities, round by round."""
    matrix = gaming_matrix(GamingSettings(tasks=60, agents=4, cheats=("halfway",), features=0), seed=3)
    replay = Replay(matrix, "given", 60, seeds=[0], audit_rate=1.0)
    player = PolicyPlayer(Auto(), replay.setup, "auto", floor=0.02)
    trace = play(player, replay, keep_propensities=True)
    router = Orchestrator(matrix.agents, Auto(), seed=1, audit_rate=1.0)
    for t in range(60):
        task = Task(reference=Cloud(matrix.reference_embed[t][None]))
        decision = router.prepare(task)
        assert decision.propensities == pytest.approx(trace.propensities[t, 0], abs=1e-12)
        i = int(trace.agent[t, 0])
        router.commit(replace(decision, agent=matrix.agents[i]), task)
        truth, judge = (float(each[t, i]) for each in (matrix.true_reward, matrix.reward))
        output = Cloud(matrix.output_embed[t, i][None])
        router.observe(decision.id, Outcome.completed(truth, output=output), audit=True)
        router.observe(decision.id, Outcome.completed(judge))
