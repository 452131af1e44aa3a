"""The cost-quality plane: means that the router's choices do not distort, the hull, and the router's own point."""

import csv
import io

import numpy as np
import pytest

from bot_orch.numerics.hull import upper_hull
from bot_orch.service.dashboard.buckets import Bucket, BucketView
from bot_orch.service.dashboard.download import csv_text
from bot_orch.service.dashboard.plane import PLANE, Plane, hull_at, plane_of, plane_sums, plane_table
from bot_orch.service.dashboard.regret import DIFFERENCES, Rewards

AGENTS = ("small", "large")
EASY, HARD = np.array([0.9, 0.9]), np.array([0.2, 0.8])
USD = np.array([[0.001, 0.01], [0.004, 0.04]])  # of an easy and of a hard task: long prompts cost more


def taken(bucket, offer, reward, *, usd):
    """A rewarded decision, as the timeline counts it."""
    for names, rows in (
        (DIFFERENCES, offer.differences(reward)),
        (PLANE, plane_sums(offer, reward, usd)),
    ):
        for name, values in zip(names, rows, strict=True):
            bucket[name][:] += values


def play(rng, rounds, *, sure=0.9):
    """A router that mostly gives easy tasks to the small agent and hard ones to the large one; and the truth."""
    bucket = Bucket.empty(0, 2)
    rewards = Rewards(2)
    true_reward, true_usd = np.zeros(2), np.zeros(2)
    for _ in range(rounds):
        hard = int(rng.random() < 0.5)
        p = np.array([1 - sure, sure] if hard else [sure, 1 - sure])
        chosen = int(rng.choice(2, p=p))
        every = (rng.random(2) < (HARD if hard else EASY)).astype(float)
        offer = rewards.offer(chosen, p, np.zeros(2))
        taken(bucket, offer, every[chosen], usd=USD[hard, chosen])
        rewards.see(offer, every[chosen])
        true_reward += every / rounds
        true_usd += USD[hard] / rounds
    return plane_of(view(bucket), AGENTS), true_reward, true_usd


def view(bucket, n=2):
    return BucketView([bucket], 1_000_000, from_us=0, to_us=1_000_000, n=n)


def test_means_are_those_of_all_tasks_though_each_agent_got_its_own_sort():
    rng, missed, errors, usd_missed, usd_errors = np.random.default_rng(3), [], [], [], []
    for _ in range(60):
        plane, reward, usd = play(rng, 300, sure=0.8)
        assert [each.name for each in plane.points] == list(AGENTS) and all(each.corrected for each in plane.points)
        missed.append([each.reward for each in plane.points] - reward)
        errors.append([each.reward_error for each in plane.points])
        usd_missed.append([each.usd for each in plane.points] - usd)
        usd_errors.append([each.usd_error for each in plane.points])
    for miss, error in ((np.array(missed), np.array(errors)), (np.array(usd_missed), np.array(usd_errors))):
        assert np.all(np.abs(miss.mean(0)) < 3 * miss.std(0) / np.sqrt(len(miss))), "unbiased"
        assert np.all((np.abs(miss) < 2 * error).mean(0) >= 0.88), "and the standard error is honest"
    assert abs(reward[0] - 0.55) < 0.1, "its own decisions alone would say about 0.76"


def test_a_mean_reward_is_never_outside_zero_and_one():
    """Few draws of small propensity give a doubly robust sum beyond what any mean can be."""
    bucket, rewards, p = Bucket.empty(0, 2), Rewards(2), np.array([0.05, 0.95])
    for k in range(40):
        chosen, reward = (0, float(k > 0)) if k % 4 == 0 else (1, 0.0)
        offer = rewards.offer(chosen, p, np.zeros(2))
        taken(bucket, offer, reward, usd=0.01)
        rewards.see(offer, reward)
    assert not 0.0 <= bucket["dr_reward"][0] / bucket["drawable"][0] <= 1.0
    plane = plane_of(view(bucket), AGENTS)
    assert all(0.0 <= each.reward <= 1.0 for each in plane.points)
    assert all(0.0 <= reward <= 1.0 for _, reward in plane.hull)


def test_a_router_that_knows_its_tasks_is_above_every_fixed_mix():
    plane, _, _ = play(np.random.default_rng(0), 4000)
    assert [each.on_hull for each in plane.points] == [True, True]
    assert plane.above == pytest.approx(plane.router.reward - hull_at(plane.hull, plane.router.usd), abs=1e-5)
    assert plane.above > 0.02 and plane.points[0].usd < plane.router.usd < plane.points[1].usd


def test_a_router_that_draws_at_random_is_a_fixed_mix():
    plane, _, _ = play(np.random.default_rng(1), 4000, sure=0.5)
    assert abs(plane.above) < 0.02


def test_an_agent_that_could_rarely_be_drawn_has_its_plain_mean_and_no_place_on_the_hull():
    bucket, rewards = Bucket.empty(0, 3), Rewards(3)
    half, forced = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0])
    for k in range(44):
        p, agent = (half, k % 2) if k < 40 else (forced, 2)
        offer = rewards.offer(agent, p, np.zeros(3))
        taken(bucket, offer, 0.5 + 0.2 * agent, usd=0.01 * (1 + agent))
        rewards.see(offer, 0.5 + 0.2 * agent)
    a, b, person = plane_of(view(bucket, 3), ("a", "b", "person")).points
    assert a.corrected and b.corrected and not person.corrected and not person.on_hull
    assert (a.usd, a.usd_error) == (pytest.approx(0.01), pytest.approx(0.0, abs=1e-7)), "a fixed price is known"
    assert (person.usd, person.reward, person.reward_error) == (pytest.approx(0.03), pytest.approx(0.9), None)


def test_without_rewards_there_is_nothing():
    plane = plane_of(view(Bucket.empty(0, 2)), AGENTS)
    assert plane == Plane([], []) and plane.to_dict()["router"] is None
    assert len(plane_table(plane)) == 1


def test_the_hull_leaves_out_what_a_mix_beats():
    points = [(0.0, 0.1), (1.0, 0.2), (2.0, 0.7), (2.0, 0.6), (3.0, 0.7), (4.0, 0.8)]
    hull = [points[agent] for agent in upper_hull([y for _, y in points], [x for x, _ in points])]
    assert hull == [(0.0, 0.1), (2.0, 0.7), (4.0, 0.8)]
    assert upper_hull([], []) == [] and hull_at([], 1.0) is None
    for usd, reward in points:
        assert hull_at(hull, usd) >= reward


def test_the_file_has_every_point():
    plane, _, _ = play(np.random.default_rng(0), 60)
    rows = list(csv.DictReader(io.StringIO(csv_text(plane_table(plane)))))
    assert [(row["point"], row["name"]) for row in rows] == [
        ("agent", "small"),
        ("agent", "large"),
        ("router", "router"),
    ]
    assert float(rows[0]["reward_error"]) > 0 and rows[2]["reward_error"] == ""
