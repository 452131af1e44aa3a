"""A second attempt in the arena: one deadline for the round, each attempt a decision of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bot_orch.arrays import allocate
from bot_orch.core.completion.model import Completion
from bot_orch.core.completion.patience import SHARES, completed_shares, patience_share
from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.arena.run import ArenaPlan, run_arena, run_one
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import matrix_from_arrays, write_npz
from bot_orch.lab.environments.replay.attempts import AttemptReplay
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.attempts import attempt_readers, play_attempts_of
from bot_orch.lab.harness.players import play
from bot_orch.lab.harness.replay_metrics import chosen, score
from bot_orch.types import Outcome

BOTH = np.array([True, True])


def _matrix(time_s: Any, event: Any, **more: Any) -> Matrix:
    given = {"time_s": np.array(time_s, float), "event": np.array(event, float), "cutoff_s": np.array(10.0), **more}
    return matrix_from_arrays("toy", given)


def test_a_round_by_hand() -> None:
    """Agent 0 needs 8 s and is stopped at 5; agent 1 completes 3 s later: PAR10 of the round is 8 s."""
    replay = AttemptReplay(_matrix([[8.0, 3.0]], [[1, 1]]), "given", seed=0, attempts=2, signal="par10")
    assert replay.before(0).eligible.tolist() == [[True, True]]  # type: ignore[union-attr]
    first = replay.attempt(0, watched_s=5.0)
    assert np.isnan(first.reward[0]), "only silence is known of it"
    assert first.outcomes() == [Outcome.censored(elapsed_s=5.0, reason="cancelled")]
    assert replay.last
    assert replay.again().eligible.tolist() == [[False, True]]  # type: ignore[union-attr]
    second = replay.attempt(1, watched_s=replay.left_s)
    assert (second.reward[0], second.elapsed_s[0]) == (1.0 - 3.0 / 100.0, 3.0)  # type: ignore[index]
    assert (replay.spent_s, replay.completed, replay.again()) == (8.0, True, None)


def test_a_failure_leaves_its_time_to_the_next() -> None:
    arrays = {"status": np.array([["crash", "ok"]]), "recorded_time_s": np.array([[2.0, 7.0]])}
    replay = AttemptReplay(_matrix([[10.0, 7.0]], [[0, 1]], **arrays), "given", seed=0, attempts=2)
    replay.before(0)
    assert replay.attempt(0, watched_s=5.0).reward[0] == 0.0, "a failure is known to earn nothing"
    assert replay.left_s == 8.0
    replay.attempt(1, watched_s=replay.left_s)
    assert (replay.spent_s, replay.completed) == (9.0, True)


def test_each_agent_once_and_no_more_than_the_attempts() -> None:
    replay = AttemptReplay(_matrix([[8.0, 8.0, 8.0]], [[1, 1, 1]]), "given", seed=0, attempts=2)
    replay.before(0)
    replay.attempt(0, watched_s=1.0)
    with pytest.raises(RuntimeError, match="once"):
        replay.attempt(0, watched_s=1.0)
    replay.attempt(1, watched_s=1.0)
    assert replay.again() is None
    with pytest.raises(RuntimeError, match="2 in all"):
        replay.attempt(2, watched_s=1.0)
    with pytest.raises(RuntimeError, match="attempts"):
        replay.after(0, np.array([2]))


def test_features_use_up_time_of_the_round() -> None:
    features = {"features": np.arange(2.0)[:, None], "feature_cost_s": np.array([6.0, 6.0])}
    matrix = _matrix(np.full((2, 2), 3.0), np.ones((2, 2)), **features)
    replay = AttemptReplay(matrix, "given", seed=0, attempts=2, feature_time=True)
    replay.before(0)
    assert replay.left_s == 4.0
    replay.attempt(0, watched_s=2.0)
    assert (replay.spent_s, replay.completed) == (8.0, False)
    replay.attempt(1, watched_s=replay.left_s)
    assert not replay.completed, "3 s do not fit into the last 2"


def test_one_attempt_is_the_ordinary_replay() -> None:
    rng = np.random.default_rng(0)
    event = rng.random((60, 3)) < 0.6
    matrix = _matrix(np.where(event, rng.uniform(0.1, 9.9, (60, 3)), 10.0), event)
    build = discover_entrants()["auto"].build
    replay = Replay(matrix, seeds=range(2), signal="par10")
    trace = play_attempts_of(replay, build, 1, settings={"signal": "par10"})
    alone = play(build(replay.setup), replay)
    assert np.array_equal(trace.agent, alone.agent)
    found = score(replay, chosen(replay, trace.agent), own=attempt_readers(replay, trace))["metrics"]
    wanted = score(replay, chosen(replay, alone.agent))["metrics"]
    for name in ("reward", "normalised", "solved", "par10", "gap", "mean_observed_time"):
        assert found[name] == pytest.approx(wanted[name]), name
    assert found["attempts"] == [1.0, 1.0]


def test_a_second_attempt_saves_what_the_first_leaves() -> None:
    """Each task is completed within a second by one of two agents and never by the other; nothing tells which."""
    rng = np.random.default_rng(1)
    event = np.eye(2)[rng.integers(0, 2, 120)]
    matrix = _matrix(np.where(event == 1, 1.0, 10.0), event)
    replay = Replay(matrix, seeds=[0], signal="par10")
    solved = {}
    for attempts in (1, 2):
        trace = play_attempts_of(replay, discover_entrants()["auto"].build, attempts, settings={"signal": "par10"})
        solved[attempts] = trace.completed.mean()
    assert solved[1] < 0.7
    assert solved[2] == 1.0


def test_in_the_arena(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    event = np.eye(2)[rng.integers(0, 2, 40)]
    write_npz(tmp_path / "runs.npz", _matrix(np.where(event == 1, 1.0, 10.0), event))
    unit = {"path": str(tmp_path / "runs.npz"), "order": "given", "seeds": 2, "rounds": None}
    unit |= {"signal": "par10", "policy": "ucb1", "attempts": 2, "patience": "half"}
    metrics = run_one(unit)["metrics"]
    assert metrics["solved"] == [1.0, 1.0]
    assert all(1.0 < value < 6.0 for value in metrics["par10"]), "5 s of the first, 1 s of the second"
    assert all(value < 1.0 for value in metrics["gap"])
    write_npz(tmp_path / "rewards.npz", Matrix("rewards", ("a", "b"), np.ones((3, 2))))
    for path, more in (("rewards.npz", {}), ("runs.npz", {"latency_target_s": 1.0})):
        plan = ArenaPlan([tmp_path / path], ["ucb1"], tmp_path / "out", attempts=2, **more)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="--attempts"):
            run_arena(plan, lambda *_: None)


def _observed(*times: list[tuple[float, bool]]) -> dict[str, Any]:
    """The completion model of one agent per list of (seconds, completed)."""
    completion = Completion()
    state = allocate(completion.schema, (), len(times))
    for agent, seen in enumerate(times):
        for elapsed_s, done in seen:
            outcome = Outcome.completed(1.0, elapsed_s=elapsed_s) if done else Outcome(False, 0.0, elapsed_s, "timeout")
            completion.take(state, agent, outcome, reward=1.0 if done else 0.0)
    return state


def test_patience_is_short_for_an_agent_that_completes_early_or_never() -> None:
    quick = _observed([(1.0, True)] * 40 + [(100.0, False)] * 40, [(60.0, True)] * 40)
    share = patience_share(quick, np.array([0.5, 0.5]), 0, others=BOTH, deadline_s=100.0)
    assert share <= 0.25, "after a few seconds nothing more is to be expected of it, and the other needs a minute"


def test_patience_is_long_where_the_other_has_little_to_offer() -> None:
    slow = _observed([(60.0, True)] * 40 + [(90.0, True)] * 40, [(1.0, True)] * 40)
    share = patience_share(slow, np.array([0.9, 0.1]), 0, others=BOTH, deadline_s=100.0)
    assert share > 0.8
    assert patience_share(slow, np.array([0.9, 0.0]), 0, others=BOTH, deadline_s=100.0) >= share


def test_patience_without_knowledge_or_others() -> None:
    nothing = _observed([], [])
    value = np.array([0.5, 0.5])
    assert patience_share(nothing, value, 0, others=BOTH, deadline_s=7.0) == 0.5
    known = _observed([(1.0, True)] * 9, [(1.0, True)] * 9)
    assert patience_share(known, value, 0, others=BOTH, deadline_s=7.0, rule="half") == 0.5
    assert patience_share(known, value, 0, others=np.array([True, False]), deadline_s=7.0) == 1.0
    with pytest.raises(InvalidInputError, match="patience"):
        patience_share(known, value, 0, others=BOTH, deadline_s=7.0, rule="longer")  # type: ignore[arg-type]


def test_curves_are_distributions_of_completion_times() -> None:
    state = _observed([(1.0, True)] * 50 + [(30.0, True)] * 50, [])
    within, rest = completed_shares(state, 0, 40.0)
    assert (np.diff(within) >= 0.0).all()
    assert within[-1] == 1.0
    assert rest[-1] == 0.0
    assert within[np.searchsorted(SHARES, 0.25)] == pytest.approx(0.5, abs=0.06), "half complete within 10 s"
