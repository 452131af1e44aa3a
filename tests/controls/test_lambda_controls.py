"""Broken ways to choose lambda from a log; each must fail the check that the real one passes."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "log"))

from audited_logs import AGENTS, World, write_log

from bot_orch.evaluation import lambda_choice
from bot_orch.evaluation.lambda_choice import pick_lambda
from bot_orch.evaluation.offpolicy import Difference, LogSample, difference
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.shadow import shadow
from bot_orch.rng import uniform


def test_scoring_with_first_rewards_misses_the_cheat(monkeypatch):
    log = write_log(World(2), 800)
    assert pick_lambda(log, "bot", [0, 3], paths=2).choice.recommended == 3.0

    def first(log):
        rounds = collect(log)
        return replace(rounds, rewards={key: lesson.outcome.reward for key, lesson in rounds.lessons.items()})

    monkeypatch.setattr(lambda_choice, "collect", first)
    assert not pick_lambda(log, "bot", [0, 3], paths=2).choice.changed


def test_without_audits_a_gamed_judge_cannot_show_that_alignment_helps():
    assert not pick_lambda(write_log(World(2), 800, audit=0.0), "bot", [0, 3], paths=2).choice.changed


def skewed(seed, n=300):
    """A target and a baseline of equal value, logged by propensities that follow the task."""
    rng = np.random.default_rng(seed)
    x = rng.random(n) < 0.5
    means = np.where(x[:, None], [0.8, 0.2], [0.2, 0.8])
    p = np.where(x[:, None], [0.7, 0.3], [0.1, 0.9])
    agent = (rng.random(n) > p[:, 0]).astype(int)
    reward = (rng.random(n) < means[np.arange(n), agent]).astype(float)
    return (
        LogSample(agent, reward, p, features=np.zeros((n, 0))),
        np.tile([0.9, 0.1], (n, 1)),
        np.tile([0.1, 0.9], (n, 1)),
    )


def false_changes(compare):
    return np.mean([compare(*skewed(seed)).low > 0.0 for seed in range(200)])


def unweighted(logged, target, baseline):
    """As if the log had drawn evenly."""
    even = np.full_like(logged.propensities, 0.5)
    return difference(LogSample(logged.agent, logged.reward, even, features=logged.features), target, baseline)


def on_policy_noise(logged, target, baseline):
    """Intervals as narrow as if every row were a draw of both targets."""
    found = difference(logged, target, baseline)
    half = 0.3 * (found.high - found.value)
    return Difference(found.value, found.value - half, found.value + half)


def test_false_changes_stay_below_the_level():
    assert false_changes(difference) <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / 200)


@pytest.mark.parametrize("broken", [unweighted, on_policy_noise])
def test_broken_comparisons_change_too_often(broken):
    assert false_changes(broken) > 0.025 + 3 * np.sqrt(0.025 * 0.975 / 200)


def test_learning_where_two_draws_happen_to_match_favours_what_the_log_favours():
    """The log prefers the cheat; matched rows hold it far more often than the target would choose it."""
    rounds = collect(write_log(World(7), 1500, policy="bot", least=0.1))
    chosen, expected = np.zeros(len(AGENTS)), np.zeros(len(AGENTS))
    router = shadow(rounds, "bot", 1.0)
    for index, (event, task) in enumerate(zip(rounds.made, rounds.tasks, strict=True)):
        decision = router.prepare(task, event.eligible)
        edges = np.cumsum(decision.propensities)
        if AGENTS[int(np.argmax(edges > uniform(11, index)))] != event.agent:
            continue
        router.commit(replace(decision, agent=event.agent), task)
        router.observe(decision.id, rounds.lessons[event.id].outcome)
        chosen[AGENTS.index(event.agent)] += 1
        expected += decision.propensities
    assert np.any(np.abs(chosen - expected) > 3.5 * np.sqrt(expected))
