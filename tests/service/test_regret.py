"""The dashboard's regret: unbiased with an honest standard error, also where agents and prices change."""

import numpy as np
import pytest

from bot_orch.service.dashboard.buckets import Bucket
from bot_orch.service.dashboard.regret import DIFFERENCES, Rewards, best_agent, regret_line


def summed(offers):
    """Sums over some decisions."""
    found = Bucket.empty(0, len(offers[0][0].others))
    for offer, reward in offers:
        for name, values in zip(DIFFERENCES, offer.differences(reward), strict=True):
            found[name][:] += values
    found.settled = float(len(offers))
    return found


def run(rng, rounds, means, penalties, *, floor=0.05):
    """A greedy router with a floor; what it estimates against every agent, and the truth."""
    n = means.shape[1]
    rewards, offers, truth = Rewards(n), [], np.zeros(n)
    for t in range(rounds):
        p = np.full(n, floor)
        p[np.argmax(rewards.means() - penalties[t])] += 1 - n * floor
        agent = rng.choice(n, p=p)
        every = (rng.random(n) < means[t]).astype(float)
        offers.append((rewards.offer(agent, p, penalties[t]), every[agent]))
        rewards.see(offers[-1][0], every[agent])
        net = every - penalties[t]
        truth += net - net[agent]
    return summed(offers), truth


def test_it_is_unbiased_with_its_standard_error_when_quality_and_prices_change():
    rng, rounds, missed, errors = np.random.default_rng(5), 300, [], []
    early = np.arange(rounds)[:, None] < rounds // 2
    means = np.where(early, [0.9, 0.6, 0.3], [0.3, 0.6, 0.8])
    penalties = np.where(early, [0.0, 0.0, 0.4], [0.3, 0.0, 0.0])
    for _ in range(120):
        sums, truth = run(rng, rounds, means, penalties)
        missed.append(sums["difference"] - truth)
        errors.append(np.sqrt(np.maximum(sums["expected_variance"], sums["seen_variance"])))
    miss, error = np.array(missed), np.array(errors)
    assert np.all(np.abs(miss.mean(0)) < 3 * miss.std(0) / np.sqrt(len(miss))), "unbiased"
    assert np.all((np.abs(miss) < 2 * error).mean(0) >= 0.88), "and the standard error is honest"


def test_a_router_that_follows_prices_beats_every_single_agent():
    """Equal quality, prices exchanged halfway: what the router saved is known without any noise."""
    rng, rounds = np.random.default_rng(0), 200
    early = np.arange(rounds)[:, None] < 100
    sums, truth = run(rng, rounds, np.ones((rounds, 2)), np.where(early, [0.1, 3.0], [3.0, 0.1]))
    found = best_agent([sums])
    assert found.total == pytest.approx(truth[found.agent], abs=2 * found.error) and found.total < -200
    assert found.error < 20


def test_without_exploration_it_is_not_known():
    rewards, sure = Rewards(2), np.array([1.0, 0.0])
    offers = [(rewards.offer(0, sure, np.zeros(2)), 0.5) for _ in range(50)]
    assert best_agent([summed(offers)]) is None and regret_line([summed(offers)]) == []
    assert best_agent([]) is None


def test_an_agent_that_could_rarely_be_drawn_is_no_alternative():
    rewards, half, alone = Rewards(3), np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.2, 0.6])
    offers = [(rewards.offer(k % 2, half, np.array([0.2, 0.0, 0.0])), 0.5) for k in range(80)]
    offers += [(rewards.offer(2, alone, np.zeros(3)), 1.0) for _ in range(12)]
    found = best_agent([summed(offers)])
    assert found.agent == 1


def test_a_forced_decision_has_no_regret():
    rewards = Rewards(2)
    even = np.full(2, 0.5)
    for agent, reward in ((0, 0.9), (1, 0.1)):
        rewards.see(rewards.offer(agent, even, np.zeros(2)), reward)
    offer = rewards.offer(1, np.array([0.0, 1.0]), np.zeros(2))
    difference, expected, seen, drawable = offer.differences(0.4)
    assert difference == pytest.approx([0.0, 0.0]) and drawable.tolist() == [0.0, 1.0]
    assert not expected.any() and not seen.any()
