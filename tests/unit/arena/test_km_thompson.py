"""The peer of Gigli and Stella in its own setting: only successes are told, late; the delay law is recovered."""

from __future__ import annotations

import numpy as np

from bot_orch.lab.arena.entrants.peer_km_thompson import KaplanMeierThompson
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.rng import derive_keys

MEAN_DELAY, CONVERTS = 20.0, (0.3, 0.6)


def _played(rounds: int, *, seed: int = 0) -> tuple[KaplanMeierThompson, np.ndarray, np.ndarray]:
    """Conversions come after an exponential delay; nothing is ever told about the others."""
    rng = np.random.default_rng(seed)
    learner = KaplanMeierThompson(Setup(2, 0, 1, keys=derive_keys(["test"], [seed])), seed)
    due: dict[int, list[tuple[int, int]]] = {}
    arms, told = np.zeros(rounds, dtype=int), np.zeros(2)
    for t in range(1, rounds + 1):
        learner.t = learner.now = t
        arm = arms[t - 1] = learner.pull(np.zeros(0), [0, 1], rng.random())
        if rng.random() < CONVERTS[arm]:
            due.setdefault(t + int(rng.exponential(MEAN_DELAY)), []).append((t, arm))
        for born, which in due.pop(t, ()):
            learner.t = born
            learner.update(np.zeros(0), which, 1.0)
            told[which] += 1
    return learner, arms, told / np.maximum(np.bincount(arms, minlength=2), 1)


def test_the_delay_law_is_recovered_from_conversions_alone() -> None:
    learner, arms, _ = _played(600)
    at = np.array([5, 10, 20, 40])
    assert np.abs(learner.delay_survival(at) - np.exp(-(at + 1) / MEAN_DELAY)).max() < 0.07
    assert (arms[300:] == 1).mean() > 0.8


def test_conversions_under_way_are_counted() -> None:
    gaps = {"fitted": [], "told so far": []}
    for seed in range(4):
        learner, _, told = _played(80, seed=seed)
        gaps["fitted"].append(learner.probabilities(np.zeros(0))[1] - CONVERTS[1])
        gaps["told so far"].append(told[1] - CONVERTS[1])
    assert np.mean(gaps["told so far"]) < -0.12, "a quarter of the conversions is under way"
    assert abs(np.mean(gaps["fitted"])) < 0.5 * abs(np.mean(gaps["told so far"]))


def test_silence_where_failures_are_told_is_not_failure() -> None:
    learner = KaplanMeierThompson(Setup(2, 0, 1, keys=derive_keys(["test"], [0])), 0)
    rng = np.random.default_rng(1)
    due: dict[int, list[int]] = {}
    for t in range(1, 301):
        learner.t = learner.now = t
        learner.pull(np.zeros(0), [0], 0.5)
        if rng.random() < 0.5:  # the other half is never told
            due.setdefault(t + int(rng.exponential(5.0)), []).append(t)
        for born in due.pop(t, ()):
            learner.t = born
            learner.update(np.zeros(0), 0, float(rng.random() < 0.7))
    assert learner.probabilities(np.zeros(0))[0] > 0.5, "0.35 if silence were failure, 0.7 if it said nothing"
