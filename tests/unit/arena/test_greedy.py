"""The greedy baselines try their pool once and then follow the largest mean."""

from __future__ import annotations

import numpy as np
import pytest

from bot_orch.lab.arena.entrants.greedy import Greedy, pool_size
from bot_orch.lab.arena.league import league
from bot_orch.lab.arena.registry import discover_entrants, find_entrants
from bot_orch.lab.arena.run import run_one
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Arrival, Replay, RoundOutcome
from bot_orch.lab.harness.players import ReplayTrace, play

NAMES = ("optimistic-greedy", "subsampled-greedy")


def _world(tasks: int, means: np.ndarray) -> Matrix:
    return Matrix("toy", tuple(f"agent-{i}" for i in range(len(means))), np.tile(means, (tasks, 1)))


def _play(matrix: Matrix, *, few: bool, seeds: int = 5, arrival: Arrival | None = None) -> tuple[Greedy, ReplayTrace]:
    replay = Replay(matrix, seeds=range(seeds), arrival=arrival)
    player = Greedy(replay.setup, few=few)
    return player, play(player, replay)


def test_all_agents_once_then_the_best() -> None:
    means = np.array([0.2, 0.9, 0.5, 0.1, 0.3, 0.6])
    _, trace = _play(_world(40, means), few=False)
    for seed in range(5):
        assert sorted(trace.agent[:6, seed]) == list(range(6))
    assert (trace.agent[6:] == 1).all()
    assert len({tuple(column) for column in trace.agent[:6].T}) > 1, "seeds try in different orders"


def test_a_few_once_then_the_best_of_them() -> None:
    means = np.linspace(0.0, 1.0, 100)
    player, trace = _play(_world(64, means), few=True)
    assert (player.pool.sum(axis=1) == 16).all()
    assert len({tuple(row) for row in player.pool}) == 5, "each seed draws its own"
    for seed in range(5):
        drawn = np.flatnonzero(player.pool[seed])
        assert sorted(trace.agent[:16, seed]) == drawn.tolist()
        assert (trace.agent[16:, seed] == drawn.max()).all()


def test_the_pool_is_drawn_evenly() -> None:
    replay = Replay(_world(25, np.zeros(40)), seeds=range(400))
    share = Greedy(replay.setup, few=True).pool.mean(axis=0)
    assert share == pytest.approx(np.full(40, 0.25), abs=0.1)


def test_both_are_one_where_there_are_few_agents() -> None:
    rng = np.random.default_rng(0)
    matrix = Matrix("few", tuple("abcde"), (rng.random((60, 5)) < np.linspace(0.2, 0.8, 5)).astype(float))
    one, two = (_play(matrix, few=few)[1] for few in (False, True))
    assert np.array_equal(one.agent, two.agent)


def test_ties_are_broken_at_random() -> None:
    _, trace = _play(_world(400, np.array([0.5, 0.5])), few=False)
    assert trace.agent[2:].mean(axis=0) == pytest.approx(np.full(5, 0.5), abs=0.15)


def test_only_eligible_agents_are_chosen() -> None:
    rng = np.random.default_rng(1)
    reward = rng.random((80, 60))
    reward[rng.random((80, 60)) < 0.7] = np.nan
    reward[7] = np.nan
    reward[7, 3] = 0.4
    matrix = Matrix("gaps", tuple(f"agent-{i}" for i in range(60)), reward)
    for few in (False, True):
        _play(matrix, few=few, seeds=20)  # the replay refuses who is not eligible


def test_the_pool_is_left_only_where_nobody_of_it_can() -> None:
    reward = np.tile(np.linspace(0.0, 1.0, 90), (16, 1))
    replay = Replay(Matrix("gaps", tuple(f"agent-{i}" for i in range(90)), reward), "given", seeds=range(3))
    pool = Greedy(replay.setup, few=True).pool
    reward[9, pool[0]] = np.nan
    other = Replay(Matrix("gaps", replay.matrix.agents, reward), "given", seeds=range(3))
    trace = play(Greedy(other.setup, few=True), other)
    inside = pool[np.arange(3), trace.agent]
    assert not inside[9, 0]
    assert np.delete(inside[:, 0], 9).all()


def test_late_outcomes_do_not_repeat_a_trial() -> None:
    late = Arrival(late=np.full(40, 5))
    _, trace = _play(_world(40, np.array([0.2, 0.9, 0.5])), few=False, arrival=late)
    for seed in range(5):
        assert sorted(trace.agent[:3, seed]) == [0, 1, 2]
    assert (trace.agent[8:] == 1).all()


@pytest.mark.parametrize(("reason", "wanted"), [("timeout", 1), ("unreachable", 0)])
def test_a_timeout_counts_as_zero_and_silence_for_nothing(reason: str, wanted: int) -> None:
    replay = Replay(_world(9, np.array([0.5, 0.4])), seeds=[0])
    player, before = Greedy(replay.setup, few=False), replay.before(0)
    for agent, reward in ((0, 0.5), (1, 0.4)):
        player._tried[0, agent] = True
        player.learn(before, RoundOutcome(np.array([agent]), np.array([reward])))
    player.learn(before, RoundOutcome(np.array([0]), np.array([np.nan]), reason=(reason,)))
    assert player.choose(before, np.array([0.3])).agent.tolist() == [wanted]


def test_an_audited_truth_replaces_the_verdict() -> None:
    replay = Replay(_world(9, np.array([0.5, 0.4])), seeds=[0])
    player, before = Greedy(replay.setup, few=False), replay.before(0)
    player._tried[:] = True
    player.learn(before, RoundOutcome(np.array([0]), np.array([0.9]), truth=np.array([0.1])))
    player.learn(before, RoundOutcome(np.array([1]), np.array([0.4]), truth=np.array([np.nan])))
    assert player.choose(before, np.array([0.3])).agent.tolist() == [1]


def test_they_play_in_the_league_by_default(tmp_path) -> None:
    assert set(NAMES) <= set(find_entrants(None))
    path = tmp_path / "toy.npz"
    np.savez(path, reward=np.tile([0.1, 0.9, 0.4], (50, 1)))
    unit = {"path": str(path), "seeds": 2, "rounds": None, "signal": "log-uniform"}
    results = {
        ("toy", "shuffled", name): run_one({**unit, "dataset": "toy", "order": "shuffled", "policy": name})
        for name in ("random", "best-single", *NAMES)
    }
    assert {standing.policy for standing in league(results, "shuffled")} == set(NAMES)
    assert not any(discover_entrants()[name].build(Replay(_world(4, np.ones(2))).setup).uses_features for name in NAMES)


def test_pool_size() -> None:
    assert pool_size(100, 50) == 15
    assert pool_size(3, 50) == 3
    assert pool_size(100, 1) == 2
    assert pool_size(100, None) == 100
