from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from bot_orch import Agent, Guarantee, InvalidInputError, Objective, Orchestrator, Outcome, Router, Task
from bot_orch.arrays import allocate
from bot_orch.core.guarantee import uniform_bound

#: Of the share of rounds so far, whether others are served, and random numbers: rewards of baseline and the other.
Rewards = Callable[[float, np.ndarray, np.random.Generator], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class ServedStreams:
    violated: np.ndarray
    kept: np.ndarray
    loss: np.ndarray


def bernoulli(baseline: float, other: Callable[[float], float]) -> Rewards:
    def rewards(at: float, serving: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        n = len(serving)
        return (rng.random(n) < baseline).astype(float), (rng.random(n) < other(at)).astype(float)

    return rewards


def adversary(at: float, serving: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Hurt as soon as others are served, and show the baseline at its worst otherwise."""
    return np.where(serving, 1.0, 0.0), np.where(serving & (rng.random(len(serving)) < 0.5), 1.0, 0.0)


def serve(promise: Guarantee, rewards: Rewards, *, rounds: int, streams: int, seed: int = 0) -> ServedStreams:
    """Two agents, the baseline second; a policy that would always take the first."""
    rng, state = np.random.default_rng(seed), allocate(promise.schema, (streams,), 2)
    wants = np.tile([0.98, 0.02], (streams, 1))
    mean, count = np.full(streams, 0.5), np.ones(streams)
    violated, kept, loss = np.zeros(streams, dtype=bool), np.zeros(streams), np.zeros(streams)
    for t in range(1, rounds + 1):
        serving = promise.serves_others(state)
        p = promise.restrict(state, wants, 1)[:, 1]
        r, s = rewards(t / rounds, serving, rng)
        drawn, estimate = rng.random(streams) < p, mean / count
        unknown = np.full(streams, np.nan)
        promise.count(state, p, estimate, drawn=drawn, reward=unknown, before=None)
        promise.count(state, p, estimate, drawn=drawn, reward=np.where(drawn, r, s), before=unknown)
        mean, count = mean + drawn * r, count + drawn
        loss += np.where(drawn, 0.0, r - s)
        kept += ~drawn
        violated |= loss > promise.loss_at_most * t + 1e-9
    return ServedStreams(violated, kept / rounds, loss / rounds)


WORLDS = {
    "at the boundary": bernoulli(0.8, lambda at: 0.8 - 0.05 / 0.75),
    "drifting": bernoulli(0.8, lambda at: 0.85 if at < 0.6 else 0.4),
    "adversary": adversary,
}
PROMISE = Guarantee("large", 0.05)


@pytest.mark.parametrize("world", WORLDS)
def test_the_promise_holds_at_every_moment(world):
    found = serve(PROMISE, WORLDS[world], rounds=1600, streams=500)
    share = found.violated.mean()
    assert share <= 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / 500)
    assert found.kept.mean() > 0.02, "something was served, or nothing was tested"


class FixedSample(Guarantee):
    """A control: the interval of one look, taken at every round."""

    def _total(self, loss, seen, unseen, unseen_squares):
        return np.asarray(loss + 1.645 * np.sqrt(seen + unseen) - 1.0)


def test_an_interval_for_one_look_is_caught():
    promise = FixedSample("large", 0.05)
    shares = [serve(promise, world, rounds=1600, streams=200).violated.mean() for world in WORLDS.values()]
    assert max(shares) > 0.1


def test_an_equally_good_agent_is_served_more_and_more():
    short, long = (
        serve(PROMISE, bernoulli(0.8, lambda at: 0.8), rounds=n, streams=40).kept.mean() for n in (1500, 6000)
    )
    assert 0.0 < short < long
    assert long > 0.25


def test_a_worse_agent_gets_the_credit_and_no_more():
    found = serve(PROMISE, bernoulli(0.9, lambda at: 0.3), rounds=3000, streams=40)
    assert found.loss.max() < 0.05
    assert found.kept.mean() < 0.1


def test_unknown_rewards_count_as_lost_and_reports_replace_them():
    once, twice = allocate(PROMISE.schema, (), 2), allocate(PROMISE.schema, (), 2)
    at, estimate, unknown = np.array(0.25), np.array(0.7), np.array(np.nan)
    for drawn, reward in ((True, 1.0), (False, 0.0), (True, 0.0), (False, 0.5)):
        one = {"drawn": np.array(drawn), "before": None}
        PROMISE.count(once, at, estimate, reward=np.array(reward), **one)
        PROMISE.count(twice, at, estimate, reward=unknown, **one)
        worst = PROMISE.certificate(twice).loss_bound
        PROMISE.count(twice, at, estimate, reward=np.array(reward), drawn=np.array(drawn), before=unknown)
        assert PROMISE.certificate(twice).loss_bound <= worst + 1e-9
    assert all(np.isclose(once[name], twice[name]) for name in once)


def test_rounds_of_a_certain_baseline_are_free():
    state = allocate(PROMISE.schema, (), 2)
    first = PROMISE.certificate(state).loss_bound
    PROMISE.count(state, np.array(1.0), np.array(0.5), drawn=np.array(True), reward=np.array(0.0), before=None)
    found = PROMISE.certificate(state)
    assert (found.rounds, found.loss_bound) == (1, first)
    assert found.credit == pytest.approx(0.05)


def test_the_bound_covers_walks_at_all_times():
    rng = np.random.default_rng(3)
    steps = rng.choice([-1.0, 3.0], p=[0.75, 0.25], size=(400, 3000))
    walks, squares = steps.cumsum(axis=1)[:, ::5], (steps**2).cumsum(axis=1)[:, ::5]
    assert (walks > uniform_bound(squares, 1.0, 0.05)).any(axis=1).mean() <= 0.05 + 0.022
    assert (np.diff(uniform_bound(np.linspace(0.0, 100.0, 50), 1.0, 0.05)) > 0).all()


def play(router, quality, rounds, rng):
    served = []
    for number in range(rounds):
        decision = router.decide(Task(f"t{number}"))
        served.append(decision.agent)
        router.observe(decision.id, Outcome.completed(float(rng.random() < quality[decision.agent])))
    return served


def test_a_router_keeps_its_promise_and_its_state_round_trips():
    agents = [Agent("small", price=0.001), Agent("large", price=0.01)]
    router = Orchestrator(agents, "ucb1", objective=Objective(usd=30.0), guarantee=Guarantee("large", 0.2), seed=2)
    first = Guarantee("large", 0.2).first_round()
    served = play(router, {"small": 0.8, "large": 0.8}, 1200, np.random.default_rng(0))
    assert set(served[:first]) == {"large"}
    assert served[-300:].count("small") > 100
    again = Orchestrator.from_json(router.to_json())
    assert again.certificate() == router.certificate()
    assert again.decide(Task("x")).propensities == pytest.approx(router.decide(Task("x")).propensities)


def test_drift_spends_the_credit_and_the_baseline_returns():
    router = Orchestrator(["small", "large"], "epsilon-greedy", guarantee=Guarantee("large", 0.2), seed=1)
    rng = np.random.default_rng(1)
    play(router, {"small": 1.0, "large": 0.8}, 800, rng)
    assert router.certificate().serves_others
    router2 = Orchestrator.from_json(router.to_json())
    served = play(router2, {"small": 0.0, "large": 0.8}, 800, rng)
    assert served[-100:].count("small") <= 20


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("baseline", {"baseline": "nobody", "loss_at_most": 0.02}),
        ("loss_at_most", {"baseline": "large", "loss_at_most": 0.0}),
        ("confidence", {"baseline": "large", "loss_at_most": 0.02, "confidence": 1.0}),
        ("control", {"baseline": "large", "loss_at_most": 0.02, "control": 0.0}),
        ("share", {"baseline": "large", "loss_at_most": 0.02, "share": 0.1}),
        ("loss_at_most", {"baseline": "large"}),
    ],
)
def test_what_cannot_be_promised_names_its_field(field, values):
    with pytest.raises(InvalidInputError, match=f"guarantee.{field}"):
        Orchestrator(["small", "large"], guarantee=Guarantee.from_spec(values))


def test_what_it_needs_grows_with_what_it_promises():
    needed = [Guarantee("large", each).rounds_needed() for each in (0.1, 0.05, 0.02)]
    assert needed == sorted(needed)
    assert Guarantee("large", 0.0001).rounds_needed() is None


def test_a_thread_safe_router_has_the_certificate():
    router = Router(["small", "large"], guarantee=PROMISE)
    router.observe(router.decide(Task("t")).id, Outcome.completed(1.0))
    assert (router.certificate().rounds, router.certificate().serves_others) == (1, False)
    assert Router(["small", "large"]).certificate() is None


def test_default_rewards_stay_the_worst_case_until_a_report():
    promise = Guarantee("large", 0.9)
    reported, silent = (Orchestrator(["small", "large"], guarantee=promise, seed=1) for _ in range(2))
    for number in range(60):
        for router in (reported, silent):
            decision = router.decide(Task(f"t{number}"))
            router.observe(decision.id, Outcome.completed(1.0), default=True)
            if router is reported:
                router.observe(decision.id, Outcome.completed(1.0))
    assert reported.certificate().loss_bound < silent.certificate().loss_bound


def test_several_answers_do_not_go_with_a_guarantee():
    router = Orchestrator(["small", "large"], guarantee=PROMISE)
    with pytest.raises(InvalidInputError, match="attempts: is for several answers"):
        router.decide(Task("t"), attempts=2)
