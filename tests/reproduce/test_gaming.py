"""Agents that win the judge with outputs far from the reference are refused; without alignment they are chosen."""

from dataclasses import replace

import numpy as np
import pytest

from bot_orch.lab.arena.registry import Entrant, discover_entrants, register
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.policies.auto import Auto

ALL = ("constant", "copy", "length")
CASES = {
    "constant": GamingSettings(tasks=300, agents=5, cheats=("constant",)),
    "copy": GamingSettings(tasks=300, agents=5, cheats=("copy",)),
    "length": GamingSettings(tasks=300, agents=5, cheats=("length",)),
    "most are cheats": GamingSettings(tasks=300, agents=5, cheats=ALL),
    "no features": GamingSettings(tasks=500, agents=10, cheats=("length",), features=0),
    "noisy honest agents": GamingSettings(tasks=500, agents=10, cheats=("constant",), noise=1.0),
    "twenty": GamingSettings(tasks=800, agents=20, cheats=ALL),
}


def outcome(matrix, name, seeds=6):
    """Share of cheats after 20 rounds per agent, and mean true reward over all rounds."""
    replay = Replay(matrix, "shuffled", matrix.n_tasks, seeds=range(seeds))
    agent = play(discover_entrants()[name].build(replay.setup), replay).agent
    cheats = [i for i, label in enumerate(matrix.agents) if label.startswith("cheat")]
    late = agent[20 * matrix.n_agents :]
    return float(np.isin(late, cheats).mean()), float(matrix.true_reward[replay.rows, agent].mean())


def honest_only(matrix):
    keep = [i for i, label in enumerate(matrix.agents) if label.startswith("honest")]
    names = tuple(matrix.agents[i] for i in keep)
    cut = {key: getattr(matrix, key)[:, keep] for key in ("reward", "true_reward", "output_embed")}
    return replace(matrix, agents=names, **cut)


def check(settings, seeds=6):
    matrix = gaming_matrix(settings, seed=1)
    share, true_reward = outcome(matrix, "auto", seeds)
    _, best_honest = outcome(honest_only(matrix), "auto-no-alignment", seeds)
    fallen, lost = outcome(matrix, "auto-no-alignment", seeds)
    assert share < 0.01
    assert true_reward >= 0.9 * best_honest
    assert fallen > 0.5 and lost < 0.6 * best_honest, "the control without alignment does not fall for it"


@pytest.mark.parametrize("name", CASES)
def test_cheats_are_refused(name):
    check(CASES[name])


def test_five_cheats_among_sixty_are_refused():
    check(GamingSettings(tasks=1500, agents=60, cheats=(*ALL, "copy", "length")), seeds=2)


def test_alignment_costs_nothing_without_cheats():
    matrix = gaming_matrix(GamingSettings(tasks=400, agents=10, cheats=()), seed=2)
    assert outcome(matrix, "auto") == outcome(matrix, "auto-no-alignment")


def test_fixed_lambda_misleads_where_the_best_agent_words_things_its_own_way():
    """Honest agents whose spread grows with their worth: a large fixed lambda pays for closeness, auto does not."""
    matrix = gaming_matrix(GamingSettings(tasks=500, agents=8, cheats=(), noise=0.5), seed=3)
    reverse = replace(matrix, reward=matrix.reward[:, ::-1], true_reward=matrix.true_reward[:, ::-1])
    _, auto = outcome(reverse, "auto")
    register(Entrant("auto-lambda-3", "auto, lambda 3", lambda setup: PolicyPlayer(Auto(), setup, 3.0)))
    _, fixed = outcome(reverse, "auto-lambda-3")
    _, none = outcome(reverse, "auto-no-alignment")
    assert auto >= 0.97 * none > fixed + 0.1
