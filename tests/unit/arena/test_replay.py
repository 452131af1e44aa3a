"""Replay: same tasks for everyone, one cell a round, survival rewards for runtimes."""

from __future__ import annotations

import numpy as np
import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import matrix_from_arrays
from bot_orch.lab.environments.replay.bandit import Replay, task_order
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.policies.registry import make_policy

MATRIX = gaming_matrix(GamingSettings(tasks=40, agents=5))


def test_orders() -> None:
    assert task_order(MATRIX, "given", 40, seed=3).tolist() == list(range(40))
    one, two = task_order(MATRIX, "shuffled", 40, seed=0), task_order(MATRIX, "shuffled", 40, seed=1)
    assert sorted(one) == sorted(two) == list(range(40))
    assert one.tolist() != two.tolist()
    long = task_order(MATRIX, "shuffled", 100, seed=0)
    assert long[:40].tolist() == one.tolist()
    assert sorted(long[40:80]) == list(range(40))
    assert long[40:80].tolist() != one.tolist(), "goes round again in a new order"
    assert task_order(MATRIX, "given", 80, seed=0)[40:].tolist() != list(range(40))


def test_a_seed_is_the_same_alone_and_in_a_batch() -> None:
    entrants = discover_entrants()
    for name in ("thompson-beta", "linucb", "lints", "thompson-beta+ot"):
        traces = []
        for seeds in ([2], [0, 1, 2]):
            replay = Replay(MATRIX, rounds=60, seeds=seeds)
            traces.append(play(entrants[name].build(replay.setup), replay).agent[:, -1])
        assert np.array_equal(*traces), name


def test_a_task_nobody_can_take_is_never_shown() -> None:
    matrix = Matrix("gaps", ("a", "b"), np.array([[np.nan, np.nan], [0.5, np.nan], [0.25, 1.0]]))
    replay = Replay(matrix, seeds=range(3), rounds=20)
    assert set(replay.rows.ravel()) == {1, 2}
    trace = play(PolicyPlayer(make_policy("ucb1"), replay.setup), replay)
    assert np.isfinite(matrix.reward[replay.rows, trace.agent]).all()


def test_an_agent_that_cannot_take_the_task_is_refused() -> None:
    matrix = Matrix("gaps", ("a", "b"), np.array([[0.5, np.nan]]))
    replay = Replay(matrix, seeds=[0])
    before = replay.before(0)
    assert before.eligible is not None
    assert before.eligible.tolist() == [[True, False]]
    with pytest.raises(InvalidInputError, match="agent: cannot take this task"):
        replay.after(0, np.array([1]))


def test_a_round_shows_one_cell_once_and_in_turn() -> None:
    replay = Replay(MATRIX, seeds=[0])
    with pytest.raises(RuntimeError, match="not open"):
        replay.after(0, np.array([0]))
    replay.before(0)
    replay.after(0, np.array([0]))
    with pytest.raises(RuntimeError, match="has been answered"):
        replay.after(0, np.array([1]))
    replay.before(1)
    replay.before(0)
    with pytest.raises(RuntimeError, match="has been answered"):
        replay.after(0, np.array([1]))


def test_after_shows_output_cost_and_reward_of_the_chosen_cell() -> None:
    matrix = gaming_matrix(GamingSettings(tasks=6, agents=5))
    replay = Replay(matrix, "given", seeds=range(2))
    before = replay.before(0)
    assert matrix.reference_embed is not None
    assert matrix.output_embed is not None
    assert np.array_equal(before.reference, matrix.reference_embed[[0, 0]])
    after = replay.after(0, np.array([1, 4]))
    assert np.array_equal(after.output, matrix.output_embed[[0, 0], [1, 4]])
    assert np.array_equal(after.reward, matrix.reward[[0, 0], [1, 4]])
    assert after.cost_usd is None


def test_trials_are_drawn_by_seed_and_average_to_the_cell() -> None:
    trials = np.array([[[0.0, np.nan, 1.0, 0.0], [1.0, 1.0, np.nan, np.nan]]])
    matrix = matrix_from_arrays("trials", {"success": trials})
    seen = []
    for _ in range(2):
        replay = Replay(matrix, rounds=300, seeds=range(20))
        learned = []
        for t in range(300):
            replay.before(t)
            learned.append(replay.after(t, np.zeros(20, dtype=int)).reward)
        seen.append(np.array(learned))
    assert np.array_equal(*seen), "paired: the same draws for every policy"
    assert set(seen[0].ravel()) == {0.0, 1.0}
    assert abs(seen[0].mean() - 1 / 3) < 0.03


def test_survival_rewards_fall_with_time_and_are_zero_unless_completed() -> None:
    time_s, event = np.array([[1.0, 10.0, 100.0, 3.0]]), np.array([[1, 1, 0, 0]])
    status = np.array([["ok", "ok", "timeout", "memout"]])  # out of memory: a failure before the cutoff
    arrays = {"cutoff_s": np.array(100.0), "time_s": time_s, "event": event, "status": status}
    matrix = matrix_from_arrays("runtimes", arrays | {"agent": np.array(["a", "b", "c", "d"])})
    rewards = []
    for agent in range(4):
        replay = Replay(matrix, seeds=[0])
        replay.before(0)
        rewards.append(float(replay.after(0, np.array([agent])).reward[0]))
    assert 1.0 > rewards[0] > rewards[1] > rewards[2] == rewards[3] == 0.0


def test_rewards_in_the_file_are_learned_from_even_beside_times() -> None:
    arrays = {
        "reward": np.full((4, 2), 0.75),
        "time_s": np.ones((4, 2)),
        "event": np.ones((4, 2)),
        "cutoff_s": np.array(9.0),
    }
    matrix = matrix_from_arrays("both", arrays)
    replay = Replay(matrix, seeds=[0])
    replay.before(0)
    assert replay.after(0, np.array([0])).reward.tolist() == [0.75]


def test_bad_settings() -> None:
    with pytest.raises(InvalidInputError, match="order"):
        Replay(MATRIX, "sideways")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="rounds"):
        Replay(MATRIX, rounds=0)
    with pytest.raises(InvalidInputError, match="signal"):
        Replay(MATRIX, signal="loud")
