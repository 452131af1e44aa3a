from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from bot_orch import Agent, Answer, Guarantee, InvalidInputError, Objective, Orchestrator, Outcome, Router, Task
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
    mean, count = np.full((streams, 2), 0.5), np.ones((streams, 2))
    violated, kept, loss = np.zeros(streams, dtype=bool), np.zeros(streams), np.zeros(streams)
    for t in range(1, rounds + 1):
        serving = promise.serves_others(state)
        r, s = rewards(t / rounds, serving, rng)
        estimate = mean / count
        p = promise.restrict(state, wants, 1, estimate=estimate)
        drawn = rng.random(streams) < p[:, 1]
        unknown, reward, at = np.full(streams, np.nan), np.where(drawn, r, s), drawn.astype(int)
        known = {"propensities": p, "estimate": estimate}
        promise.count(state, 1, at, reward=unknown, before=None, **known)
        promise.count(state, 1, at, reward=reward, before=unknown, **known)
        chosen = at[:, None] == np.arange(2)
        mean, count = mean + chosen * reward[:, None], count + chosen
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

    def _total(self, sums):
        return np.asarray(sums["loss"] + 1.645 * np.sqrt(sums["seen"] + sums["unseen"]) - 1.0)


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
    unknown, known = np.array(np.nan), {"propensities": np.array([0.75, 0.25]), "estimate": np.array([0.6, 0.7])}
    for agent, reward in ((1, 1.0), (0, 0.0), (1, 0.0), (0, 0.5)):
        PROMISE.count(once, 1, np.array(agent), reward=np.array(reward), before=None, **known)
        PROMISE.count(twice, 1, np.array(agent), reward=unknown, before=None, **known)
        worst = PROMISE.certificate(twice).loss_bound
        PROMISE.count(twice, 1, np.array(agent), reward=np.array(reward), before=unknown, **known)
        assert PROMISE.certificate(twice).loss_bound <= worst + 1e-9
    assert all(np.allclose(once[name], twice[name]) for name in once)


def test_rounds_of_a_certain_baseline_are_free():
    state = allocate(PROMISE.schema, (), 2)
    first = PROMISE.certificate(state).loss_bound
    known = {"propensities": np.array([0.0, 1.0]), "estimate": np.array([0.5, 0.5])}
    PROMISE.count(state, 1, np.array(1), reward=np.array(0.0), before=None, **known)
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


def test_an_agent_that_loses_too_much_is_held_back_although_credit_is_left():
    router = Orchestrator(["small", "large"], "random", guarantee=Guarantee("large", 0.2), seed=1)
    rng, found = np.random.default_rng(1), []
    play(router, {"small": 1.0, "large": 0.9}, 300, rng)
    assert router.certificate().held_back == ()
    for _ in range(20):
        play(router, {"small": 0.0, "large": 0.9}, 5, rng)
        found.append((router.certificate().held_back, router.certificate().serves_others))
    assert (("small",), True) in found


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
    with pytest.raises(InvalidInputError, match="loss_at_most: is 0.0001, which ten million tasks"):
        Guarantee("large", 0.0001)


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


def test_the_sums_have_the_mean_of_the_loss_over_the_draw():
    rng = np.random.default_rng(5)
    for _ in range(40):
        p, m, r = rng.dirichlet(np.ones(3)), rng.random(3), rng.random(3)
        p = 0.7 * p + 0.3 * np.eye(3)[2]
        totals, kinds = np.zeros(3), np.zeros((3, 3))
        for agent in range(3):
            state = allocate(PROMISE.schema, (), 3)
            PROMISE.count(state, 2, np.array(agent), propensities=p, estimate=m, reward=np.array(r[agent]), before=None)
            totals[agent], kinds[agent] = state["loss"], state["kind_loss"].sum(axis=1)
        assert totals @ p == pytest.approx((r[2] - r) @ p)
        assert p @ kinds == pytest.approx(p * (r[2] - r))


class Signals:
    """A cheap agent that is right as often as its signal says, and a dear one that is right nine times in ten."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.loss, self.worst, self.delivered = 0.0, -np.inf, []

    def play(self, router, rounds, *, attempts=2):
        for number in range(rounds):
            signal = float(self.rng.random())
            right = {"small": float(self.rng.random() < signal), "large": float(self.rng.random() < 0.9)}
            seen = []
            while True:
                decision = router.decide(Task(f"t{number}"), seen=seen, attempts=attempts)
                if decision.action == "accept":
                    break
                said = {"signal": signal} if decision.agent == "small" else {}
                seen.append(Answer(decision.agent, decision.id, **said))
            router.observe(decision.id, Outcome.completed(right[decision.agent]))
            self.loss += right["large"] - right[decision.agent]
            self.worst = max(self.worst, self.loss - router.settings.guarantee.loss_at_most * (number + 1))
            self.delivered.append((decision.agent, signal, len(seen)))


def several(seed=0, loss=0.2):
    agents = [Agent("small", price=0.001), Agent("large", price=0.01)]
    promise = Guarantee("large", loss)
    return Orchestrator(agents, objective=Objective(usd=40.0), guarantee=promise, seed=seed)


def test_with_several_attempts_the_answers_signal_decides_what_is_delivered():
    router, world = several(), Signals(1)
    world.play(router, 1500)
    late = world.delivered[500:]
    small = [signal for agent, signal, _ in late if agent == "small"]
    assert world.worst <= 0.0
    assert len(small) > 0.2 * len(late)
    assert np.mean(small) > 0.6 > np.mean([signal for agent, signal, _ in late if agent == "large"])
    found = router.certificate()
    assert found.rounds == 1500
    assert {each.agent for each in found.kinds} == {"small"}
    assert sum(each.rounds for each in found.kinds) == sum(agent == "small" for agent, _, _ in world.delivered)


def test_a_seen_answer_is_accepted_with_the_control_share_left_and_the_baselines_is_delivered():
    router, world = several(), Signals(2)
    world.play(router, 400)
    assert router.certificate().serves_others
    small = Answer("small", "elsewhere", signal=0.99)
    shares = dict(zip(router.agents, router.derive(Task("x"), seen=[small], attempts=2).propensities, strict=True))
    assert shares["large"] >= 0.25 - 1e-12
    both = [small, Answer("large", "there")]
    last = router.derive(Task("x"), seen=both, attempts=2)
    assert (last.agent, last.action, last.propensity) == ("large", "accept", 1.0)
    with pytest.raises(InvalidInputError, match="attempts: leaves none for large"):
        router.derive(Task("x"), seen=[small], attempts=1)


def test_an_answer_that_was_asked_for_alone_is_accepted_and_counts_once():
    router = several()
    Signals(3).play(router, 300, attempts=1)
    assert router.certificate().rounds == 300
    rng = np.random.default_rng(1)
    for number in range(200):
        first = router.decide(Task(f"s{number}"))
        second = router.decide(Task(f"s{number}"), seen=[Answer(first.agent, first.id)])
        assert (second.agent, second.action) == (first.agent, "accept")
        router.observe(second.id, Outcome.completed(float(rng.random() < 0.9)))
    found = router.certificate()
    assert found.rounds == 500
    assert found.loss_bound < found.credit, "rewards replaced the worst case"


def test_the_last_attempt_is_the_baselines():
    names = ["a", "b", "large"]
    router = Orchestrator(names, guarantee=Guarantee("large", 0.5), seed=1)
    rng = np.random.default_rng(0)
    for number in range(200):
        decision = router.decide(Task(f"t{number}"))
        router.observe(decision.id, Outcome.completed(float(rng.random() < 0.9)))
    assert router.certificate().serves_others
    seen = [Answer("a", "one", signal=0.1)]
    two = dict(zip(names, router.derive(Task("x"), seen=seen, attempts=2).propensities, strict=True))
    three = dict(zip(names, router.derive(Task("x"), seen=seen, attempts=3).propensities, strict=True))
    assert two["b"] == 0.0 < three["b"]
    assert two["large"] >= 0.25


def test_a_policy_that_never_explores_the_baseline_is_held_to_the_promise():
    router = Orchestrator(["small", "large"], "epsilon-greedy", floor=0.0, guarantee=PROMISE)
    assert router.derive(Task("t")).agent == "large"
