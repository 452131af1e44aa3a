import re
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bot_orch import Agent, InvalidInputError, Objective, Outcome, Router, Task
from bot_orch.cli.main import main
from bot_orch.evaluation import savings
from bot_orch.evaluation.offpolicy import LogSample
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.savings import ServedRequests, compare, mix_of_same_cost, served_requests
from bot_orch.log.stores.open import open_whole

USD, REWARD = np.array([0.01, 0.05, 0.10]), np.array([0.6, 0.8, 0.82])
AGENTS = ("small", "middle", "large")


def requests(n, p, rng, *, wrong=None):
    """Requests drawn with probabilities ``p``, with costs and rewards that depend on the request."""
    size = rng.lognormal(0.0, 0.8, n)
    features = np.log(size)[:, None]
    agent = (rng.random(n)[:, None] > np.cumsum(p)).sum(axis=1)
    usd = USD[agent] * size
    reward = (rng.random(n) < REWARD[agent] - 0.1 * np.tanh(features[:, 0])).astype(float)
    logged = LogSample(agent, reward, np.tile(p if wrong is None else wrong, (n, 1)), features=features)
    seconds = np.full(n, np.nan)
    values = {"usd": usd, "reward": reward, "seconds": seconds}
    paid = USD[:, None] * size  # what each agent would have cost
    return ServedRequests(AGENTS, logged, values, values), float((usd - paid[2]).sum())


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_of_savings_cover_at_the_stated_rate(level):
    rng, hits = np.random.default_rng(5), []
    for _ in range(300):
        made, truth = requests(800, np.array([0.5, 0.3, 0.2]), rng)
        found = compare(made, "large", confidence=level).total_usd()
        hits.append(found.low <= truth <= found.high)
    assert np.mean(hits) == pytest.approx(level, abs=2.5 * np.sqrt(level * (1 - level) / 300) + 0.04)


def test_wrong_propensities_are_caught_by_the_coverage_check():
    rng, hits = np.random.default_rng(6), []
    for _ in range(100):
        made, _ = requests(800, np.array([0.5, 0.3, 0.2]), rng, wrong=np.array([0.2, 0.3, 0.5]))
        quality = compare(made, "large").differences["reward"]
        truth = float(np.array([0.5, 0.3, 0.2]) @ REWARD - REWARD[2])
        hits.append(quality.low <= truth <= quality.high)
    assert np.mean(hits) < 0.9


def test_rare_agents_and_impossible_ones_are_not_compared():
    made, _ = requests(400, np.array([0.97, 0.01, 0.02]), np.random.default_rng(1))
    assert "cannot be known" in str(compare(made, "large"))
    never, _ = requests(400, np.array([0.5, 0.5, 0.0]), np.random.default_rng(1))
    found = compare(never, "large")
    assert found.n == 0
    assert found.left_out == 400
    with pytest.raises(InvalidInputError, match="against: 'huge' is not in the log"):
        compare(made, "huge")


def test_dollars_are_known_where_quality_is_not():
    rng, hits = np.random.default_rng(8), []
    for _ in range(200):
        made, truth = requests(1200, np.array([0.5, 0.4, 0.1]), rng)
        thin = replace(made.logged, propensities=np.tile([0.97, 0.02, 0.01], (1200, 1)))
        found = compare(replace(made, logged=thin), "large")
        assert found.differences.keys() == {"usd"}
        assert "quality cannot be known" in str(found)
        usd = found.total_usd()
        hits.append(usd.low <= truth <= usd.high)
    assert np.mean(hits) == pytest.approx(0.95, abs=2.5 * np.sqrt(0.95 * 0.05 / 200) + 0.03)


def test_the_requests_advised_are_enough_at_the_floor():
    rng = np.random.default_rng(9)
    often, rarely = np.array([0.1, 0.1, 0.8]), np.array([0.98, 0.01, 0.01])
    p = np.vstack([np.tile(often, (400, 1)), np.tile(rarely, (200, 1))])
    problem = compare(drawn(p, rng), "large").unknown
    more, higher = (int(each.replace(",", "")) for each in re.findall("about ([0-9,]+)", problem))
    assert "at a floor of 0.1" in problem
    assert higher < more
    for number, then in ((more, rarely), (higher, np.array([0.94, 0.03, 0.03]))):
        later = [np.vstack([p, np.tile(then, (n, 1))])[:, 2] for n in (number // 2, number)]
        half, whole = (len(each) ** 2 / (1 / each).sum() for each in later)
        assert half < 45 < whole < 70


def drawn(p, rng):
    made, _ = requests(len(p), np.array([0.4, 0.3, 0.3]), rng)
    agent = (rng.random(len(p))[:, None] > np.cumsum(p, axis=1)).sum(axis=1)
    return replace(made, logged=replace(made.logged, agent=agent, propensities=p))


def test_the_mix_of_the_same_cost_is_found():
    made, _ = requests(20_000, np.array([0.3, 0.4, 0.3]), np.random.default_rng(2))
    mix = mix_of_same_cost(made)
    assert mix.sum() == pytest.approx(1.0)
    assert mix[0] < 0.2, "middle and large are better at this price"
    assert compare(made, mix).differences["usd"].value == pytest.approx(0.0, abs=0.003)


def test_the_command_compares_a_routers_file(tmp_path, capsys):
    rng, path = np.random.default_rng(0), tmp_path / "log.sqlite"
    agents = [Agent("small", price=0.001), Agent("large", price=0.01)]
    with closing(
        Router(agents, path=path, policy="epsilon-greedy", floor=0.3, objective=Objective(usd=20.0))
    ) as router:
        for number in range(500):
            decision = router.decide(Task(f"t{number}"))
            usd = 0.001 if decision.agent == "small" else 0.01
            reward = float(rng.random() < (0.8 if decision.agent == "small" else 0.82))
            router.observe(decision.id, Outcome.completed(reward, cost_usd=usd, elapsed_s=1.0))
    assert main(["report", str(path), "--against", "large"]) == 0
    text = capsys.readouterr().out
    assert "large, 500 requests: $" in text
    assert "less; quality" in text
    assert "a mix of the same cost" in text
    with closing(open_whole(path)) as log:
        found = compare(served_requests(collect(log)), "large").total_usd()
    assert found.low < found.value < found.high < 0.0


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_of_what_would_have_been_saved_cover_at_the_stated_rate(level, monkeypatch):
    rng, hits, n = np.random.default_rng(7), {"usd": [], "reward": []}, 300
    truth = {"usd": 0.8 * (0.01 - 0.1) * np.exp(0.32), "reward": 0.8 * (0.6 - 0.82)}

    def event(number, by, agent):
        return SimpleNamespace(id=f"{by}{number}", task=SimpleNamespace(id=number), by=by, agent=agent, round="")

    for _ in range(200):
        size, small = rng.lognormal(0.0, 0.8, n), rng.random(n) < 0.8
        chosen = np.where(small, 0, 2)
        made = [event(number, "observe", "large") for number in range(n)]
        made += [event(number, "shadow", AGENTS[agent]) for number, agent in enumerate(chosen)]
        usd = np.concatenate([0.1 * size, USD[chosen] * size])
        reward = (rng.random(2 * n) < np.concatenate([np.full(n, 0.82), REWARD[chosen]])).astype(float)
        reward[n:][rng.random(n) < 0.2] = np.nan  # judges failed
        values = {"usd": usd, "reward": reward, "seconds": np.full(2 * n, np.nan)}
        logged = LogSample(np.zeros(2 * n, int), reward, np.ones((2 * n, 3)), features=np.zeros((2 * n, 0)))
        served = ServedRequests(AGENTS, logged, values, values, tuple(each.id for each in made))
        monkeypatch.setattr(savings, "served_requests", lambda rounds, shadows, served=served: served)
        found = savings.observed(SimpleNamespace(made=made), confidence=level)
        assert found.differences.keys() == hits.keys(), "no seconds are known"
        for name, each in found.differences.items():
            hits[name].append(each.low <= truth[name] <= each.high)
    for name in hits:
        assert np.mean(hits[name]) == pytest.approx(level, abs=2.5 * np.sqrt(level * (1 - level) / 200) + 0.03), name
