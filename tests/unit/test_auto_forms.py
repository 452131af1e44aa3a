"""What auto computes, against dense solves, the densities of scipy and quadrature."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_t, norm

from bot_orch.arrays import allocate, insert_agent, remove_agent
from bot_orch.core import pipeline
from bot_orch.numerics.choice import coupled_randucb
from bot_orch.policies import auto
from bot_orch.policies.auto import Auto
from bot_orch.policies.base import KeptRows, Situation
from bot_orch.rng import generator

M, D = 3, 2


def feedback(t, agent, reward, x=None, claims=None, m=M):
    made = Situation(t, np.zeros(m), context=x, claims=claims)
    drawn = pipeline.Draw(np.array(agent), np.full(m, 1 / m), None, made)
    return pipeline.bandit_feedback(drawn, np.array(reward))


def stated_by(agent, claims):
    """The two inputs and the offset that claims give an agent: its own claim, or the mean of the others'."""
    if claims is None or not np.isfinite(claims).any():
        return (0.0, 0.0), None
    claim = claims[agent] if np.isfinite(claims[agent]) else np.nanmean(claims)
    sure = -math.log10(1.001 - claim) / 3.0
    found = np.array([claim - 0.5, sure - 0.5]) / math.sqrt(auto.CLAIM)
    return found, claims[agent] if np.isfinite(claims[agent]) else None


def input_of(agent, x=None, claims=None, slope=auto.SLOPES[0]):
    """The inputs of one agent and its offset, None without one."""
    own, offset = stated_by(agent, claims)
    if x is None:
        return np.array([1.0 / math.sqrt(auto.MEAN), *own]), offset
    rng = np.random.default_rng(1)
    frequency = auto.FREQUENCY * rng.normal(size=(len(x), auto.COSINES))
    phase = rng.uniform(0.0, 2.0 * math.pi, auto.COSINES)
    cosines = math.sqrt(2.0 * auto.CURVE / auto.COSINES) * np.cos(x @ frequency + phase) * np.any(x)
    return np.concatenate([[1.0 / math.sqrt(auto.MEAN_BESIDE)], own, np.append(x, cosines) / math.sqrt(slope)]), offset


def posterior(rows, width, weight):
    """Posterior mean under a prior mean of zero, and covariance, of weighted rows (input, offset, reward)."""
    z = np.array([row[0] for row in rows]).reshape(-1, width)
    rest = np.array([reward - (offset or 0.0) for _, offset, reward in rows])
    covariance = np.linalg.inv(np.eye(width) + z.T @ (z * np.asarray(weight)[:, None]))
    return covariance @ z.T @ (weight * rest), covariance


def weights(n):
    """The weight of each of an agent's ``n`` outcomes: they are discounted every so many outcomes."""
    each = np.arange(n) // auto.EVERY
    return auto.KEPT ** (auto.EVERY * (n // auto.EVERY - each))


def common_of(state):
    n, total = state["count"], state["total"]
    return (np.sum(total / (n + auto.TRIED)) + 0.05) / (np.sum(n / (n + auto.TRIED)) + 0.1)


def learned(policy, rounds, *, features=True, claims=True, seed=1):
    """A state, and per agent its rows (input, offset, reward); no agent is ever idle, so no mean gains variance."""
    rng, state = generator("forms", seed), allocate(policy.schema(D if features else 0), (), M)
    rows = [[] for _ in range(M)]
    for _ in range(rounds):
        agent, reward = int(rng.integers(M)), rng.random()
        x = rng.normal(size=D) if features else None
        stated = np.where(rng.random(M) < 0.5, rng.random(M), np.nan) if claims else None
        rows[agent].append((*input_of(agent, x, stated), reward))
        policy.update(state, feedback(len(rows[agent]), agent, reward, x, stated))
    return state, rows


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("forgetting", [False, True])
def test_learning_one_by_one_is_a_dense_ridge_regression(forgetting, features, claims):
    state, rows = learned(Auto(forgetting=forgetting), 160, features=features, claims=claims)
    width = state["theta"].shape[-1]
    for agent, mine in enumerate(rows):
        assert len(mine) > 2 * auto.EVERY
        mean, covariance = posterior(mine, width, weights(len(mine)) ** forgetting)
        np.testing.assert_allclose(state["theta"][agent], mean, atol=2e-5)
        np.testing.assert_allclose(state["inverse"][agent], covariance, atol=2e-5)


@pytest.mark.parametrize("stated", ["nobody", "some"])
def test_estimates_add_the_mean_of_all_agents_as_prior_or_the_claim(stated):
    policy = Auto(forgetting=False)
    state, rows = learned(policy, 60)
    x, claims = np.array([0.2, -0.5]), None if stated == "nobody" else np.array([0.9, np.nan, 0.4])
    found = policy.choose(state, Situation(61, np.zeros(M), context=x, claims=claims)).estimate
    for agent, mine in enumerate(rows):
        mean, covariance = posterior(mine, len(state["theta"][0]), np.ones(len(mine)))
        z, offset = input_of(agent, x, claims)
        prior = 0.0 if offset is not None else common_of(state) * math.sqrt(auto.MEAN_BESIDE)
        wanted = (offset or 0.0) + z @ (mean + covariance[:, 0] * prior)
        assert found[agent] == pytest.approx(np.clip(wanted, -0.25, 1.25), abs=2e-5)


def test_without_features_the_estimate_is_a_shrunken_mean():
    policy = Auto()
    state, rows = learned(policy, 40, features=False, claims=False)
    found = Auto(forgetting=False).choose(state, Situation(41, np.zeros(M))).estimate
    for agent, mine in enumerate(rows):
        weight = weights(len(mine))
        total = weight @ [reward for _, _, reward in mine]
        wanted = (total + auto.MEAN * common_of(state)) / (weight.sum() + auto.MEAN)
        assert found[agent] == pytest.approx(wanted, abs=1e-5)


def test_exploration_is_the_posterior_deviation_with_noise_per_agent():
    """Noise: squared errors of one-step predictions over an agent's own outcomes, START counting for OWN of them."""
    policy = Auto(forgetting=False)
    state = allocate(policy.schema(0), (), M)
    rng, square = generator("noise"), np.zeros(M)
    for t in range(1, 61):
        agent, reward = int(rng.integers(M)), rng.random() * [0.2, 0.6, 1.0][t % 3]
        n, before = state["count"][agent], policy.choose(state, Situation(t, np.zeros(M))).estimate[agent]
        square[agent] += (reward - before) ** 2 / (1.0 + 1.0 / (n + auto.MEAN))
        policy.update(state, feedback(t, agent, reward))
    np.testing.assert_allclose(state["square"], square, rtol=1e-5)
    noise = (square + auto.OWN * auto.START) / (state["count"] + auto.OWN)
    found = policy.choose(state, Situation(61, np.zeros(M))).exploration
    np.testing.assert_allclose(found, policy.scale * np.sqrt(noise / (state["count"] + auto.MEAN)), rtol=1e-5)


def test_slopes_are_explored_less_than_means():
    policy = Auto(forgetting=False)
    state, rows = learned(policy, 60, claims=False)
    x = np.array([1.5, -0.5])
    found = policy.choose(state, Situation(61, np.zeros(M), context=x)).exploration
    for agent, mine in enumerate(rows):
        z, _ = input_of(agent, x)
        spread = z @ posterior(mine, len(z), np.ones(len(mine)))[1] @ z
        own = 1.0 / (len(mine) + auto.MEAN_BESIDE)
        noise = (state["square"][agent] + auto.OWN * auto.START) / (len(mine) + auto.OWN)
        wanted = policy.scale * math.sqrt(noise * (own + auto.CALM * (spread - own)))
        assert found[agent] == pytest.approx(wanted, rel=1e-4)


def test_forgetting_discounts_outcomes_and_keeps_the_prior():
    rng = generator("forget")
    z = rng.normal(size=(20, 4))
    precision, moment = np.eye(4) + z.T @ z, z.T @ rng.random(20)
    inverse, theta = np.linalg.inv(precision), np.linalg.solve(precision, moment)
    auto._forget(theta, inverse)
    kept = auto.KEPT**auto.EVERY
    less = kept * (precision - np.eye(4)) + np.eye(4)
    np.testing.assert_allclose(inverse, np.linalg.inv(less), rtol=1e-10)
    np.testing.assert_allclose(theta, np.linalg.solve(less, kept * moment), rtol=1e-10)


def test_the_mean_of_an_idle_agent_gets_uncertain_and_stays_where_it_is():
    policy = Auto()
    state, _ = learned(policy, 60, claims=False)
    x, claims = np.array([0.3, 0.1]), None
    idle = {name: array.copy() for name, array in state.items()}
    prior = common_of(state) * math.sqrt(auto.MEAN_BESIDE)
    policy._walk(idle, 1, int(state["last"][1]) + 1 + 30, prior=prior)
    grown = idle["inverse"] - state["inverse"]
    assert grown[1, 0, 0] == pytest.approx(auto.DRIFT * 30 / M * auto.MEAN_BESIDE, rel=1e-3)
    assert np.count_nonzero(grown) == 1
    at = Situation(1, np.zeros(M), context=x, claims=claims)
    np.testing.assert_allclose(policy.choose(idle, at).estimate, policy.choose(state, at).estimate, atol=1e-6)
    policy._walk(idle, 1, 10**9, prior=prior)
    assert idle["inverse"][1, 0, 0] == pytest.approx(1.0), "no more uncertain than before its first outcome"


def kept(rows=90, slope=0.5, claims=False, *, d=D, seed=1):
    """Rows at random whose rewards depend on the features with slopes of this size."""
    rng = generator("kept", seed)
    x, agent = rng.normal(size=(rows, d)), rng.integers(M, size=rows)
    reward = 0.5 + np.sum(x * (slope * rng.normal(size=(M, d)))[agent], axis=1) + 0.1 * rng.normal(size=rows)
    stated = np.where(rng.random((rows, M)) < 0.6, rng.random((rows, M)), np.nan) if claims else None
    told = None
    if claims:
        none = np.isnan(stated).all(axis=1)
        usual = np.where(none, -1.0, np.nanmean(np.where(none[:, None], -1.0, stated), axis=1))
        told = np.column_stack([np.nan_to_num(stated[np.arange(rows), agent], nan=-1.0), usual])
    number = np.arange(1, rows + 1)
    return KeptRows(x, agent, reward, number, np.arange(rows), told), stated


def relearned(rows, *, forgetting=False):
    """A state whose counts are those of the rows, fitted to them again."""
    policy = Auto(forgetting=forgetting)
    state = allocate(policy.schema(rows.features.shape[1]), (), M)
    state["count"][:] = np.bincount(rows.agent, minlength=M)
    state["total"][:] = np.bincount(rows.agent, rows.reward, minlength=M)
    policy.rebase(state, rows)
    return state


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("slope", [0.0, 0.05, 0.5])
def test_learning_again_is_learning_afresh(slope, claims):
    rows, stated = kept(slope=slope, claims=claims)
    state, policy = relearned(rows), Auto(forgetting=False)
    afresh = allocate(policy.schema(D), (), M)
    afresh["slope"][...] = state["slope"]
    for i in rows.order:
        told = None if stated is None else stated[i]
        policy.update(afresh, feedback(rows.round[i], rows.agent[i], rows.reward[i], rows.features[i], told))
    for name in ("theta", "inverse"):
        np.testing.assert_allclose(state[name], afresh[name], atol=5e-5, err_msg=name)


def test_learning_again_discounts_what_is_old():
    rows, _ = kept()
    state = relearned(rows, forgetting=True)
    for agent in range(M):
        mine = np.flatnonzero(rows.agent == agent)
        given = [(*input_of(agent, rows.features[i], slope=float(state["slope"])), rows.reward[i]) for i in mine]
        weight = auto.KEPT ** np.arange(len(mine))[::-1]
        mean, covariance = posterior(given, state["theta"].shape[-1], weight)
        np.testing.assert_allclose(state["theta"][agent], mean, atol=1e-5)
        np.testing.assert_allclose(state["inverse"][agent], covariance, atol=1e-5)


def log_evidence(rows, stated, slope):
    """Log density of all rewards: a multivariate t per agent, with OWN degrees of freedom and scale START."""
    counts = np.bincount(rows.agent, minlength=M)
    common = common_of({"count": counts, "total": np.bincount(rows.agent, rows.reward, minlength=M)})
    found = 0.0
    for agent in range(M):
        mine = np.flatnonzero(rows.agent == agent)
        told = [None if stated is None else stated[i] for i in mine]
        given = [input_of(agent, rows.features[i], said, slope) for i, said in zip(mine, told, strict=True)]
        z = np.array([each for each, _ in given])
        mean = [common if offset is None else offset for _, offset in given]
        shape = auto.START * (np.eye(len(mine)) + z @ z.T)
        found += multivariate_t(mean, shape, df=auto.OWN).logpdf(rows.reward[mine])
    return found


@pytest.mark.parametrize("claims", [False, True])
def test_the_slopes_of_largest_evidence_are_chosen(claims):
    chosen = set()
    for seed, slope in enumerate((0.0, 0.0, 0.02, 0.1, 0.4, 0.8)):
        rows, stated = kept(400, slope, claims, d=10, seed=seed)
        evidence = [log_evidence(rows, stated, each) - auto.HURDLE * place for place, each in enumerate(auto.SLOPES)]
        found = float(relearned(rows)["slope"])
        assert found == auto.SLOPES[int(np.argmax(evidence))]
        chosen.add(found)
    assert len(chosen) > 1 or len(auto.SLOPES) == 1, "a world in which they differ"


def test_what_is_hard_for_everybody_is_shared_and_what_is_an_agents_own_is_not():
    rng = generator("shared")
    x, agent, slopes = rng.normal(size=(400, 10)), rng.integers(M, size=400), 0.1 * rng.normal(size=10)
    noise, number = 0.1 * rng.normal(size=400), np.arange(1, 401)
    hard = relearned(KeptRows(x, agent, 0.5 + x @ slopes + noise, number, number - 1))
    at = slice(auto._OWN, auto._OWN + 10)
    np.testing.assert_allclose(hard["shared"][at] / math.sqrt(float(hard["slope"])), slopes, atol=0.02)
    own, _ = kept(400, 0.4, d=10, seed=4)
    assert not relearned(own)["shared"].any()
    stranger = Situation(401, np.zeros(M), context=2.0 * slopes)
    fresh = dict(hard, theta=np.zeros_like(hard["theta"]), inverse=np.tile(np.eye(len(hard["shared"])), (M, 1, 1)))
    wanted = common_of(hard) + 2.0 * float(slopes @ slopes)
    np.testing.assert_allclose(Auto(forgetting=False).choose(fresh, stranger).estimate, wanted, atol=0.05)


@pytest.mark.parametrize("case", ["free", "ties", "no doubt", "eligible", "batch"])
def test_propensities_are_those_of_fine_quadrature(case):
    rng, points = generator("atoms", case), 200_000
    shape = (5, 4) if case == "batch" else (4,)
    location, sd = rng.normal(size=shape) * 0.2, rng.uniform(0.01, 0.5, size=shape)
    if case == "ties":
        location[2], sd[2] = location[0], sd[0] = 0.3, 0.4
    if case == "no doubt":
        sd[1:3] = 0.0
    mask = rng.random(shape) < 0.7 if case in ("eligible", "batch") else np.ones(shape, dtype=bool)
    mask[..., 1] = True
    z, wanted = norm.ppf(0.5 + 0.5 * (np.arange(points) + 0.5) / points), np.zeros(shape)
    for row in np.ndindex(shape[:-1]):
        score = np.where(mask[row], location[row] + z[:, None] * sd[row], -np.inf)
        first = score == score.max(axis=1, keepdims=True)
        wanted[row] = np.mean(first / first.sum(axis=1, keepdims=True), axis=0)
    found = coupled_randucb(location, sd, None if mask.all() else mask)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert case != "ties" or (found[0] == found[2] > 0.0)


@pytest.mark.parametrize("place", [3, auto.EVERY - 1, auto.EVERY, 2 * auto.EVERY + 5])
def test_a_reward_that_is_replaced_late_counts_as_if_it_had_come_at_once(place):
    """With the weight that is left of it, also where it was the last one before a discount."""
    rng, policy = generator("revise"), Auto()
    late, once = (allocate(policy.schema(D), (), M) for _ in range(2))
    old, new, position = None, None, 0.0
    for t in range(1, 4 * auto.EVERY):
        x, claims, reward = rng.normal(size=D), rng.random(M), rng.random()
        zero, right = (feedback(t, 1, each, x, claims) for each in (0.0, reward))
        policy.update(once, right)
        policy.update(late, zero if t == place + 1 else right)
        if t == place + 1:
            old, new, position = zero, right, policy.position(late, 1)
    assert np.abs(late["theta"] - once["theta"]).max() > 1e-3
    policy.revise(late, old, new, position=position)
    for name in ("count", "total", "theta", "inverse"):
        np.testing.assert_allclose(late[name], once[name], atol=1e-5, err_msg=name)


def test_a_lesson_that_is_withdrawn_was_never_learned():
    policy = Auto(forgetting=False)
    state, _ = learned(policy, 60)
    before = {name: array.copy() for name, array in state.items()}
    lesson = feedback(99, 1, 0.0, np.array([0.4, 1.0]), np.array([0.3, 0.8, np.nan]))
    policy.update(state, lesson)
    assert not np.allclose(state["theta"][1], before["theta"][1], atol=1e-3)
    policy.withdraw(state, lesson)
    for name in ("count", "total", "theta", "inverse"):
        np.testing.assert_allclose(state[name], before[name], atol=2e-6, err_msg=name)


def test_an_agent_left_after_bad_outcomes_is_tried_again_without_a_floor():
    policy = Auto()
    state = allocate(policy.schema(0), (), 2)
    for t in range(1, 4):
        policy.update(state, feedback(t, 1, 0.0, m=2))
    for t in range(4, 120):
        policy.update(state, feedback(t, 0, 0.95, m=2))
    late = [policy.choose(state, Situation(t, np.zeros(2))).propensities[1] for t in (120, 4000)]
    assert late[0] < 0.05 < late[1]
    stuck = [Auto(forgetting=False).choose(state, Situation(t, np.zeros(2))).propensities[1] for t in (120, 4000)]
    assert stuck[0] == stuck[1] < 0.05, "a control"


def test_a_successor_of_the_same_name_begins_afresh():
    policy = Auto(forgetting=False)
    state, _ = learned(policy, 60)
    others = {name: np.delete(state[name], 1, axis=0) for name in ("count", "theta", "inverse")}
    remove_agent(policy.schema(D), state, 1)
    for name, array in others.items():
        np.testing.assert_array_equal(state[name], array)
    insert_agent(policy.schema(D), state)
    fresh = allocate(policy.schema(D), (), 1)
    for name in ("count", "total", "square", "last", "theta", "inverse"):
        np.testing.assert_array_equal(state[name][2], fresh[name][0])


@pytest.mark.parametrize("features", [0, D + 1])
def test_under_other_features_the_means_are_kept(features):
    policy = Auto(forgetting=False)
    state, rows = learned(policy, 60, claims=False)
    again = policy.adopt(allocate(policy.schema(features), (), M), state)
    x, common = (np.zeros(features) if features else None), common_of(state)
    found = policy.choose(again, Situation(61, np.zeros(M), context=x)).estimate
    strength = auto.MEAN_BESIDE if features else auto.MEAN
    totals = np.array([sum(reward for *_, reward in mine) for mine in rows])
    np.testing.assert_allclose(found, (totals + strength * common) / (state["count"] + strength), atol=1e-5)
