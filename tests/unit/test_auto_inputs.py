"""What auto makes of its inputs: claims, features that say nothing or in odd units, slopes that change."""

import numpy as np
import pytest

from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.core.context import with_context
from bot_orch.policies.auto import Auto
from bot_orch.policies.base import Situation
from bot_orch.rng import generator


def play(policy, means, *, contexts=None, claims=None, seeds=6):
    """Mean rewards (T, M) or (T, seeds, M); returns what was earned in expectation, (T, seeds)."""
    rng, rounds, m = generator("inputs"), len(means), means.shape[-1]
    policy = with_context(policy, numbers=0 if contexts is None else contexts.shape[-1], words=0)
    state = allocate(policy.schema(0), (seeds,), m)
    earned = np.zeros((rounds, seeds))
    for t in range(rounds):
        mean = np.broadcast_to(means[t], (seeds, m))
        x = None if contexts is None else contexts[t]
        stated = None if claims is None else np.broadcast_to(claims[t], (seeds, m))
        situation = Situation(t + 1, np.zeros((seeds, m)), context=x, claims=stated)
        drawn = pipeline.decide(policy, state, situation, u=rng.random(seeds))
        earned[t] = mean[np.arange(seeds), drawn.agent]
        pipeline.apply(policy, state, pipeline.bandit_feedback(drawn, (rng.random(seeds) < earned[t]).astype(float)))
    return earned


def test_after_a_change_it_forgets_and_without_forgetting_it_does_not():
    rng = generator("change")
    x, slopes = rng.normal(size=(2500, 3, 5)), 0.2 * rng.normal(size=(5, 3))
    means = np.clip(0.5 + np.einsum("tsd,dm->tsm", x, slopes), 0.0, 1.0)
    means[1500:] = np.clip(0.5 + np.einsum("tsd,dm->tsm", x[1500:], np.roll(slopes, 1, axis=1)), 0.0, 1.0)
    late = {
        each: (means[2000:].max(axis=-1) - play(Auto(forgetting=each), means, contexts=x, seeds=3)[2000:]).mean()
        for each in (True, False)
    }
    assert late[True] < 0.2 and late[True] < 0.6 * late[False]


def claiming(rounds=500):
    """A program that knows when it is right, overconfident, and a person who is right four times out of five."""
    rng = generator("claims")
    right = np.where(rng.random(rounds) < 0.7, 0.97, 0.4)
    stated = np.column_stack([np.clip(right**0.5, 0.0, 1.0), np.full(rounds, np.nan)])
    return np.column_stack([right, np.full(rounds, 0.8)]), stated


def test_claims_are_used_from_the_first_task_on():
    means, stated = claiming()
    told, untold = (play(Auto(), means, claims=each)[:150].mean() for each in (stated, None))
    assert told > untold + 0.04
    assert play(Auto(), means, claims=stated)[300:].mean() > means.max(axis=1)[300:].mean() - 0.02


def test_permuted_claims_do_little_harm():
    means, stated = claiming(1000)
    mixed = stated[generator("permuted").permutation(len(stated))]
    assert play(Auto(), means, claims=mixed).mean() > play(Auto(), means).mean() - 0.02


def test_claims_that_nobody_states_change_nothing():
    means, _ = claiming(100)
    nobody = np.full(means.shape, np.nan)
    np.testing.assert_array_equal(play(Auto(), means, claims=nobody), play(Auto(), means))


def test_useless_features_cost_little():
    rng = generator("useless")
    means, x = np.tile([0.3, 0.5, 0.7, 0.5], (1000, 1)), rng.normal(size=(1000, 6, 10))
    assert play(Auto(), means, contexts=x).mean() > play(Auto(), means).mean() - 0.02


def right_share(transform, rounds=400):
    """Share of right choices late, where agent 0 is for x > 0 and agent 1 for the rest, seen through ``transform``."""
    rng = generator("outliers")
    x = rng.uniform(-1.0, 1.0, size=(rounds, 6, 1))
    means = np.where(x > 0.0, [0.9, 0.1], [0.1, 0.9])
    seen = np.array([transform(t, each) for t, each in enumerate(x)])
    return (play(Auto(), means, contexts=seen)[-150:] > 0.5).mean()


@pytest.mark.parametrize("outlier", [999.0, 1e6, 1e12])
def test_one_outlier_does_not_stop_learning(outlier):
    assert right_share(lambda t, x: np.full_like(x, outlier) if t == 50 else x) > 0.95


@pytest.mark.parametrize("offset", [100.0, 2026.0, 19676.0])
def test_an_offset_of_the_features_does_not_matter(offset):
    assert right_share(lambda _, x: x + offset) > 0.95
