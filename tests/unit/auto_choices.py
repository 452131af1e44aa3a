"""What is asked of the choices of auto; ``tests/controls/test_auto_controls.py`` runs the same on broken variants."""

import numpy as np

from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.policies.base import Situation

M = 4


def state_of(policy, count, mean):
    """The state after these numbers of outcomes with these means."""
    count = np.asarray(count, dtype=float)
    learned = {"count": count, "total": count * mean, "square": 0.15 * count}
    return policy.adopt(allocate(policy.schema(0), (), len(count)), learned)


def check_pending(policy):
    """Decisions that wait for their outcome count as asked: exploration and propensity of that agent fall."""
    state = state_of(policy, [40.0, 6.0, 6.0], [0.7, 0.6, 0.6])
    free, waiting = (
        policy.choose(state, Situation(53, np.zeros(3), pending=pending))
        for pending in (None, np.array([0.0, 12.0, 0.0]))
    )
    assert waiting.exploration[1] < 0.7 * free.exploration[1], "pending decisions do not lower exploration"
    np.testing.assert_allclose(waiting.exploration[[0, 2]], free.exploration[[0, 2]])
    assert waiting.propensities[1] < free.propensities[1] - 0.02
    assert waiting.propensities[2] > free.propensities[2]
    np.testing.assert_allclose(waiting.estimate, free.estimate)


def check_doubt(policy, floor=0.2):
    """Three quarters of a floor go to agents of whom little, or nothing recent, is known; all share the rest."""
    state = state_of(policy, [400.0, 60.0, 60.0, 60.0], [0.8, 0.7, 0.7, 0.2])
    state["last"][:] = [999.0, 990.0, 100.0, 100.0]
    drawn = pipeline.decide(policy, state, Situation(1000, np.zeros(M)), u=0.5, floor=floor)
    p, even = drawn.propensities, floor / 4 / M
    assert np.all(p >= even * (1 - 1e-9)) and abs(p.sum() - 1.0) < 1e-12
    given = p - (1.0 - floor) * drawn.choice.propensities - even
    assert abs(given.sum() - 0.75 * floor) < 1e-12 and np.all(given > -1e-12), "three quarters are directed"
    assert given[0] < 0.01 * floor, "the best one needs none of it"
    assert given[2] > 2.0 * given[1], "a stale estimate is looked at before a fresh one"
    assert given[3] < 0.5 * given[2], "one that is far behind comes later"
    thin = state_of(policy, [400.0, 60.0, 6.0, 60.0], [0.8, 0.7, 0.7, 0.7])
    thin["last"][:] = 990.0
    doubt = policy.choose(thin, Situation(1000, np.zeros(M))).doubt
    assert doubt[2] > 1.5 * doubt[1] and abs(doubt.sum() - 1.0) < 1e-12
    mask = np.array([True, False, True, False])
    masked = pipeline.decide(policy, state, Situation(1000, np.zeros(M), mask), u=0.5, floor=floor).propensities
    assert np.all(masked[~mask] == 0.0) and abs(masked.sum() - 1.0) < 1e-12 and masked[2] > 0.7 * floor


def check_newcomers(policy):
    """Nobody is left out, and by round t at most about 2 sqrt(t) + 1 agents are tried."""
    fresh = np.zeros(M)
    first = policy.choose(state_of(policy, fresh, fresh), Situation(1, np.array([0.0, 0.1, 0.2, 1.7]))).propensities
    assert first[0] == 1.0 and first[3] == 0.0
    one = state_of(policy, [5.0, 0.0, 0.0, 0.0], [0.6, 0.0, 0.0, 0.0])
    dear = policy.choose(one, Situation(6, np.array([0.0, 0.2, 0.5, 0.3]))).propensities
    assert dear[0] == 0.0 and dear[2] == 0.0, "1 - 0.5 is less than what the known one earns"
    assert abs(dear[[1, 3]].sum() - 1.0) < 1e-12
    mask = np.array([True, False, True, True])
    assert policy.choose(one, Situation(6, np.zeros(M), mask)).propensities[1] == 0.0
    for tried, forced in ((10, True), (11, False)):
        count, mean = np.zeros(40), np.zeros(40)
        count[:tried], mean[:tried], count[0], mean[0] = 5.0, 0.4, 200.0, 0.95
        known = policy.choose(state_of(policy, count, mean), Situation(25, np.zeros(40))).propensities[:tried].sum()
        assert bool(known == 0.0) is forced, f"{tried} were tried by round 25, where 2 sqrt(t) + 1 is 11"


def tried(policy, means, rounds, seed=1):
    """Number of agents tried by each round."""
    rng, m = np.random.default_rng(seed), len(means)
    state, seen, found = allocate(policy.schema(0), (), m), set(), []
    for t in range(1, rounds + 1):
        drawn = pipeline.decide(policy, state, Situation(t, np.zeros(m)), u=rng.random())
        seen.add(int(drawn.agent))
        found.append(len(seen))
        reward = np.array(float(rng.random() < means[int(drawn.agent)]))
        pipeline.apply(policy, state, pipeline.bandit_feedback(drawn, reward))
    return np.array(found)
