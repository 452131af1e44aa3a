"""What auto computes, member by member, against direct sums, dense solves and enumeration."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.policies.auto import MEMBERS, Auto, coupled_randucb
from bot_orch.policies.base import KeptRows, Situation
from bot_orch.rng import generator

M, D = 3, 2


def feedback(t, agent, reward, x=None, claims=None, m=M):
    made = Situation(t, np.zeros(m), context=x, claims=claims)
    drawn = pipeline.Draw(np.array(agent), np.full(m, 1 / m), None, made)
    return pipeline.bandit_feedback(drawn, np.array(reward))


def based(rows=40, features=D, seed=1):
    """Policy and state after a fit to rows at random, and these rows."""
    rng, policy = generator("forms", seed), Auto(forgetting=False)
    state = allocate(policy.schema(features), (), M)
    x, agent, reward = rng.normal(size=(rows, features)), rng.integers(M, size=rows), rng.random(rows)
    for t in range(rows):
        policy.update(state, feedback(t + 1, agent[t], reward[t], np.zeros(features)))
    centers = np.vstack([x[:4], np.full((4, features), 1e6)])
    policy.rebase(state, KeptRows(x, agent, reward, np.arange(1, rows + 1), np.arange(rows)), centers)
    return policy, state, (x, agent, reward)


def only(policy, state, member, situation):
    """Estimate and standard deviation of one member."""
    alone = {**state, "evidence": np.full(len(MEMBERS), -500.0)}
    alone["evidence"][MEMBERS.index(member)] = 0.0
    choice = policy.choose(alone, situation)
    return choice.estimate, choice.exploration


def means(state):
    """Shrunken means and the part that agents take in difficulty, from counts and totals."""
    count, total = state["count"], state["total"]
    p = (total + 0.75) / (count + 1.5)
    slope = np.clip(4 * p * (1 - p), 0.1, 1.0)
    if "kind_count" in state:
        met = state["kind_count"] @ state["difficulty"] / np.maximum(state["kind_count"].sum(axis=1), 1.0)
        total = total - count * met * slope
    share = count / (count + 4.0)
    mean = (share @ (total / np.maximum(count, 1.0)) + 0.05) / (share.sum() + 0.1)
    return (total + 1.5 * mean) / (count + 1.5), slope


def kind_of(state, x):
    return int(np.argmin(np.linalg.norm(state["centers"] - x, axis=1)))


def test_flat_is_the_shrunken_mean():
    policy = Auto()
    state = allocate(policy.schema(0), (), M)
    state["count"][:], state["total"][:] = [10.0, 3.0, 0.0], [6.0, 3.0, 0.0]
    state["square"][:] = [1.5, 0.45, 0.0]  # a noise of 0.15
    share = np.array([10 / 14, 3 / 7, 0.0])
    everybody = (share @ [0.6, 1.0, 0.0] + 0.05) / (share.sum() + 0.1)
    estimate, spread = only(policy, state, "flat", Situation(14, np.zeros(M)))
    np.testing.assert_allclose(estimate, (np.array([6.0, 3.0, 0.0]) + 1.5 * everybody) / [11.5, 4.5, 1.5], rtol=1e-12)
    stale = 5e-3 / M * 14 * np.array([5 / 15, 5 / 8, 0.0])  # what an agent gains that was not heard of for 14 rounds
    np.testing.assert_allclose(spread, 0.8 * np.sqrt(0.15 * (1 / np.array([11.5, 4.5, 1.5]) + stale)), rtol=1e-12)


def test_an_agent_left_after_bad_outcomes_is_tried_again_without_a_floor():
    policy = Auto()
    state = allocate(policy.schema(0), (), 2)
    for t in range(1, 4):
        policy.update(state, feedback(t, 1, 0.0, m=2))
    for t in range(4, 120):
        policy.update(state, feedback(t, 0, 0.95, m=2))
    late = [policy.choose(state, Situation(t, np.zeros(2))).propensities[1] for t in (120, 4000)]
    assert late[0] == 0.0 < late[1]
    stuck = [Auto(forgetting=False).choose(state, Situation(t, np.zeros(2))).propensities[1] for t in (120, 4000)]
    assert stuck == [0.0, 0.0], "a control"


def test_recent_forgets_in_a_hundred_rounds():
    policy = Auto()
    state = allocate(policy.schema(0), (), 2)
    for t in range(1, 31):
        policy.update(state, feedback(t, t % 2, float(t > 20), m=2))
    weight = np.exp(-np.arange(29, -1, -1) / 100.0)
    mine = np.arange(1, 31) % 2 == 1
    flat, _ = means(state)
    wanted = (weight[mine & (np.arange(1, 31) > 20)].sum() + 3.0 * flat[1]) / (weight[mine].sum() + 3.0)
    assert only(policy, state, "recent", Situation(31, np.zeros(2)))[0][1] == pytest.approx(wanted, rel=1e-9)


def design(rows):
    """Intercept with prior precision 1 and slopes with 2."""
    rows = np.array(rows).reshape(-1, D)
    return np.column_stack([np.ones(len(rows)), rows / math.sqrt(2.0)])


def ridge(rows, targets):
    z = design(rows)
    return np.linalg.solve(np.eye(D + 1) + z.T @ z, z.T @ np.array(targets))


def test_linear_is_a_ridge_regression_on_the_same_rows():
    policy, state, (x, agent, reward) = based()
    rng, slope = generator("ridge"), means(state)[1]
    kinds = [kind_of(state, each) for each in x]
    target = reward - 0.5 - state["difficulty"][kinds] * slope[agent]
    rows, targets = ([list(part[agent == a]) for a in range(M)] for part in (x, target))
    for t in range(41, 81):
        here, a, r = rng.normal(size=D), int(rng.integers(M)), rng.random()
        slope = means(state)[1]
        rows[a].append(here)
        targets[a].append(r - 0.5 - state["difficulty"][kind_of(state, here)] * slope[a])
        policy.update(state, feedback(t, a, r, here))
    for a in range(M):
        np.testing.assert_allclose(state["theta"][a], ridge(rows[a], targets[a]), atol=1e-5)
    here, slope = np.array([0.2, 0.5]), means(state)[1]
    shift = slope * state["difficulty"][kind_of(state, here)]
    wanted = 0.5 + shift + [ridge(rows[a], targets[a]) @ design(here)[0] for a in range(M)]
    estimate, _ = only(policy, state, "linear", Situation(81, np.zeros(M), context=here))
    np.testing.assert_allclose(estimate, wanted, atol=1e-5)


def test_weights_are_those_of_the_predictive_likelihood():
    policy = Auto()
    state = allocate(policy.schema(0), (), 2)
    for t in range(1, 21):
        policy.update(state, feedback(t, t % 2, float(t % 3 == 0), m=2))
    flat, recent = (only(policy, state, each, Situation(21, np.zeros(2)))[0][0] for each in ("flat", "recent"))
    before = {name: state[name].copy() for name in ("evidence", "levels")}
    w = np.exp(before["evidence"][1] - before["evidence"][0] - 3.0)
    mixed = (flat + w * recent) / (1.0 + w)
    assert policy.choose(state, Situation(21, np.zeros(2))).estimate[0] == pytest.approx(mixed, rel=1e-12)
    policy.update(state, feedback(21, 0, 1.0, m=2))
    noise = before["levels"][0] + ((1.0 - mixed) ** 2 - before["levels"][0]) / 30.0
    assert state["levels"][0] == pytest.approx(noise, rel=1e-12)
    gain = ((1.0 - flat) ** 2 - (1.0 - recent) ** 2) / (2.0 * noise)
    wanted = 0.999 * (before["evidence"][1] - before["evidence"][0]) + gain
    assert state["evidence"][1] - state["evidence"][0] == pytest.approx(wanted, rel=1e-9)
    np.testing.assert_allclose(state["evidence"][2:], state["evidence"][0], err_msg="who takes no part keeps up")


@pytest.mark.parametrize("case", ["free", "ties", "eligible", "batch"])
def test_propensities_are_counted_over_64_atoms(case):
    rng = generator("atoms", case)
    shape = (5, 4) if case == "batch" else (4,)
    location, sd = rng.normal(size=shape) * 0.2, rng.uniform(0.01, 0.5, size=shape)
    if case == "ties":
        location[2], sd[2] = location[0], sd[0] = 0.3, 0.4
    mask = rng.random(shape) < 0.7 if case in ("eligible", "batch") else np.ones(shape, dtype=bool)
    mask[..., 1] = True
    wanted = np.zeros(shape)
    for row in np.ndindex(shape[:-1]):
        for atom in range(64):
            z = norm.ppf(0.5 + 0.5 * (atom + 0.5) / 64)
            score = [location[row][i] + z * sd[row][i] if mask[row][i] else -np.inf for i in range(4)]
            first = [i for i in range(4) if score[i] == max(score)]
            for i in first:
                wanted[(*row, i)] += 1.0 / len(first) / 64
    found = coupled_randucb(location, sd, None if case in ("free", "ties") else mask)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert case != "ties" or (found[0] == found[2] > 0.0)


def test_a_reward_that_is_replaced_at_once_leaves_the_data_of_the_new_one():
    rng, (policy, late, _), (_, once, _) = generator("revise"), based(), based()
    x, claims = rng.normal(size=D), rng.random(M)
    first, second = (feedback(41, 1, reward, x, claims) for reward in (0.0, 0.9))
    policy.update(late, first)
    policy.revise(late, first, second, position=0.0)
    policy.update(once, second)
    data = ("count", "total", "late_count", "late_total", "kind_count", "kind_total", "theta", "inverse", "near_rest")
    for name in (*data, "claim_theta", "claim_inverse"):
        np.testing.assert_allclose(late[name], once[name], atol=2e-6, err_msg=name)


def test_rows_of_an_agent_that_was_removed_are_not_its_successors():
    """The arrays of an agent go when it is removed; one of the same name has new ids."""
    from bot_orch.arrays import insert_agent, remove_agent

    policy, state, _ = based()
    x = Situation(41, np.zeros(M), context=np.array([0.1, 0.2]))
    remove_agent(policy.schema(D), state, 1)
    insert_agent(policy.schema(D), state)
    estimate, _ = only(policy, state, "near", x)
    linear, _ = only(policy, state, "linear", x)
    owners = set(state["near_owner"][:40].tolist()) - set(state["uid"].tolist())
    (gone,) = owners
    fresh = {**state, "near_rest": np.where(state["near_owner"] == gone, 9.0, state["near_rest"])}
    np.testing.assert_array_equal(only(policy, fresh, "near", x)[0], estimate)
    assert state["uid"][2] == -1 and np.isfinite(linear).all()
    policy.update(state, feedback(42, 2, 1.0, np.array([0.1, 0.2])))
    assert state["uid"][2] not in (-1, gone) and only(policy, state, "near", x)[0][2] > estimate[2]
