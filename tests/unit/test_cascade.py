"""Rounds of several steps: propensities, Weitzman's rule, checks that err, and what a round leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot_orch import Agent, Answer, Budget, InvalidInputError, Objective, Orchestrator, Outcome, Task
from bot_orch.arrays import allocate
from bot_orch.core import cascade
from bot_orch.core.events import record_decision, record_task
from bot_orch.log.events import decode_event, encode_event

NAMES = ("small", "medium", "large")
World = Callable[[str], tuple[Answer, float]]


def _play(router: Orchestrator, world: World, attempts: int) -> tuple[float, int]:
    """One round: the reward of what was delivered, and how many agents were asked."""
    known: dict[str, tuple[Answer, float]] = {}
    decision = router.decide(Task(), attempts=attempts)
    while decision.action == "ask":
        answer, reward = world(decision.agent)
        known[decision.agent] = (Answer(answer.agent, decision.id, **_given(answer)), reward)
        decision = router.decide(Task(), seen=[each for each, _ in known.values()], attempts=attempts)
    reward = known[decision.agent][1]
    router.observe(decision.id, Outcome.completed(reward=reward))
    return reward, len(known)


def _given(answer: Answer) -> dict[str, object]:
    return {name: getattr(answer, name) for name in ("signal", "check", "label", "key", "cost_usd")}


def _world(rng: np.random.Generator, right: Sequence[float] = (0.5, 0.7, 0.9)) -> World:
    def ask(agent: str) -> tuple[Answer, float]:
        signal = float(rng.random())
        good = rng.random() < right[NAMES.index(agent)] * (0.5 + 0.5 * signal)
        label = 0 if good else int(rng.integers(1, 4))
        return Answer(agent, signal=signal, label=label, cost_usd=0.001), float(good)

    return ask


def _trained(rounds: int = 60, **settings_: object) -> Orchestrator:
    router, world = Orchestrator(NAMES, seed=3, **settings_), _world(np.random.default_rng(1))  # type: ignore[arg-type]
    for _ in range(rounds):
        _play(router, world, 3)
    return router


ROUTER = _trained()
answers = st.builds(
    lambda signal, check, label: {"signal": signal, "check": check, "label": label},
    signal=st.none() | st.floats(0, 1),
    check=st.sampled_from([None, True, False]),
    label=st.integers(0, 2),
)


def _trajectories(router: Orchestrator, fixed: dict[str, dict[str, object]], attempts: int) -> list[float]:
    """Propensities of all complete trajectories for given answers of all agents."""
    found: list[float] = []

    def walk(seen: tuple[Answer, ...], p: float) -> None:
        step = router.prepare(Task(), seen=seen, attempts=attempts)
        for name, chance in zip(step.agents, step.propensities, strict=True):
            if chance == 0.0:
                continue
            if any(each.agent == name for each in seen):
                found.append(p * chance)
            else:
                walk((*seen, Answer(name, f"d-{name}", **fixed[name])), p * chance)  # type: ignore[arg-type]

    walk((), 1.0)
    return found


@settings(max_examples=25, deadline=None)
@given(st.tuples(answers, answers, answers), st.integers(2, 3))
def test_propensities_of_all_trajectories_sum_to_one(fixed, attempts):
    found = _trajectories(ROUTER, dict(zip(NAMES, fixed, strict=True)), attempts)
    assert sum(found) == pytest.approx(1.0, abs=1e-9)
    assert len(found) >= attempts  # the floor covers accepting and asking


def test_one_attempt_decides_as_without_a_cascade():
    plain, team = (Orchestrator(NAMES, seed=5, ids="derived") for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = plain.decide(Task()), team.decide(Task(), attempts=1)
        assert (a.agent, a.to_dict()) == (b.agent, b.to_dict())
        reward = float(rng.random())
        plain.observe(a.id, Outcome.completed(reward=reward))
        team.observe(b.id, Outcome.completed(reward=reward))
    assert plain.fingerprint() == team.fingerprint()


def test_a_round_leaves_nothing_pending_and_survives_saving():
    router = _trained()
    assert router.pending == ()
    assert not router._waiting.any()
    again = Orchestrator.from_json(router.to_json())
    assert again.fingerprint() == router.fingerprint()
    answer = Answer("small", router.decide(Task(), attempts=2).id, signal=0.5, label="x")
    again.decide(Task(), attempts=2)
    a, b = (each.decide(Task(), seen=[answer], attempts=2) for each in (router, again))
    assert (a.agent, a.action, a.propensities.tolist()) == (b.agent, b.action, b.propensities.tolist())


def test_the_log_keeps_steps():
    router = _trained()
    first = router.decide(Task(), attempts=3)
    second = router.decide(Task(), seen=[Answer(first.agent, first.id, signal=0.1, check=False, label="b")], attempts=3)
    event = record_decision(second, record_task(Task()))
    read = decode_event(encode_event(event, second.id), second.id).decision()
    assert read.to_dict() == second.to_dict()
    assert (read.round, read.step, read.attempts) == (first.id, 1, 3)


def test_weitzmans_rule_is_learned():
    """A box with a known price and a sure prize is opened if the answer at hand is worth less than their difference."""
    price, rng = 0.3, np.random.default_rng(2)
    router = Orchestrator([Agent("small"), Agent("large", cost=price)], floor=0.05, seed=1)

    def world(agent: str, label: int) -> tuple[Answer, float]:
        signal = float(rng.random())
        good = agent == "large" or rng.random() < signal
        given = label if good else (label + 1) % 4
        return Answer(agent, signal=signal if agent == "small" else None, label=given), float(good)

    for truth in rng.integers(0, 4, 1500).tolist():
        _play(router, partial(world, label=truth), 2)

    def asks(signal: float) -> float:
        answer = Answer("small", "d", signal=signal, label=0)
        step = router.prepare(Task(), seen=[answer], attempts=2)
        return float(step.propensities[step.agents.index("large")])

    assert min(asks(signal) for signal in (0.05, 0.2, 0.4, 0.55)) > 0.9  # worth at most .55 < 1 - .3
    assert max(asks(signal) for signal in (0.85, 0.95)) < 0.1


def test_asking_gains_what_the_answer_is_expected_to_be_more_probable_by():
    state = allocate(cascade.SCHEMA, (), 2)
    state["own"][1, 0] = 0.5
    state["shares"][1] = 0.0
    state["shares"][1, [1, 5]] = 0.25, 0.75  # its signals have z of -1 or 1
    seen = cascade.see(state, [Answer("first", label=1)], [0])

    def right(logit):
        return 1.0 / (1.0 + np.exp(-logit))

    gain = 0.75 * (right(1.5 + 1.0) - right(1.0))  # with z = -1 the first answer stays the better one
    for price, asked in ((gain - 0.01, 1.0), (gain + 0.01, 0.0)):
        step = cascade.next_step(state, seen, penalty=np.array([0.0, price]), eligible=None, left=1, floor=0.0)
        assert step.estimate == pytest.approx([right(1.0), right(1.0) + gain])
        assert step.propensities.tolist() == [1.0 - asked, asked]


def test_the_first_step_begins_the_best_round():
    """A cheap agent that knows when it is wrong begins, though an expensive one is worth more alone."""
    rng, cost = np.random.default_rng(5), {"small": 0.0, "large": 0.2}
    router = Orchestrator([Agent(name, cost=cost[name]) for name in cost], seed=1)
    earned = []
    for _ in range(600):
        known, truth = bool(rng.random() < 0.5), int(rng.integers(0, 4))

        def world(agent: str, known: bool = known, truth: int = truth) -> tuple[Answer, float]:
            good = known or agent == "large"
            signal = rng.uniform(0.6, 1.0) if known else rng.uniform(0.0, 0.4)
            return Answer(agent, signal=signal if agent == "small" else None, label=truth if good else 5), float(good)

        reward, asked = _play(router, world, 2)
        earned.append(reward - cost["large"] * (asked == 2))
    first = router.prepare(Task(), attempts=2)
    assert first.propensities[0] > 0.9  # alone, small is worth .5 and large .8; small and then large .9
    assert np.mean(earned[300:]) > 0.85
    assert router.prepare(Task()).terms.estimate.max() <= 1.0


def test_an_agent_that_always_fails_is_not_asked_first():
    router = Orchestrator(("broken", "small", "large"), seed=1)
    rng, first = np.random.default_rng(0), []
    for _ in range(200):
        decision = router.decide(Task(), attempts=2)
        first.append(decision.agent)
        if decision.agent == "broken":
            router.observe(decision.id, Outcome.completed(0.0))
            continue
        answer = Answer(decision.agent, decision.id, signal=0.5)
        again = router.decide(Task(), seen=[answer], eligible=[decision.agent], attempts=2)
        router.observe(again.id, Outcome.completed(float(rng.random() < 0.6)))
    assert first[50:].count("broken") < 15


def test_a_failed_check_asks_the_next_agent_from_the_beginning():
    delivered, failed = 0, 0
    for seed in range(10):
        rng, router = np.random.default_rng(seed), Orchestrator(NAMES, floor=0.0, seed=seed)
        for _ in range(30):
            good, seen = dict(zip(NAMES, rng.random(3) < (0.4, 0.6, 0.9), strict=True)), []
            decision = router.decide(Task(), attempts=3)
            while decision.action == "ask":
                seen.append(Answer(decision.agent, decision.id, check=bool(good[decision.agent])))
                decision = router.decide(Task(), seen=seen, attempts=3)
            failed += sum(not each.check for each in seen[:2])
            delivered += not good[decision.agent] and len(seen) < 3
            router.observe(decision.id, Outcome.completed(float(good[decision.agent])))
    assert failed > 60
    assert delivered == 0


def test_an_answer_of_unknown_verdict_teaches_nothing_that_was_not_known():
    """Its probability is what the model says of it: nothing changes, and no belief becomes narrower."""
    state = allocate(cascade.SCHEMA, (), 2)
    seen = cascade.see(state, [Answer("a", key="x"), Answer("b", key="y")], [0, 1])
    cascade.learn(state, seen, delivered=0, reward=1.0)
    assert state["own"][0, 0] > 0.0
    assert state["own_var"][0, 0] < state["own_var"][1, 0]
    assert state["own_var"][1, 0] == pytest.approx(1.0, abs=0.06)


def test_a_verdict_on_an_answer_is_one_on_equal_answers():
    state = allocate(cascade.SCHEMA, (), 3)
    seen = cascade.see(state, [Answer("a", label=0), Answer("b", label=0), Answer("c", label=1)], [0, 1, 2])
    assert cascade.verdicts(seen, 0, 1.0) == [1.0, 1.0, 0.0]
    assert cascade.verdicts(seen, 0, 0.0) == [0.0, 0.0, None]
    texts = cascade.see(state, [Answer("a", key="x"), Answer("c", key="y")], [0, 1])
    assert cascade.verdicts(texts, 0, 1.0) == [1.0, None]  # another wording may be right, too


def _net(attempts: int, error: float, seed: int) -> float:
    """Mean reward less costs, second half of 600 rounds, with a check that errs."""
    rng, cost = np.random.default_rng(seed), {"small": 0.0, "medium": 0.1, "large": 0.2}
    router = Orchestrator([Agent(name, cost=cost[name]) for name in NAMES], seed=seed)
    total = 0.0
    for t in range(600):
        hard = rng.random()
        paid = [0.0]

        def world(agent: str, hard: float = hard, paid: list[float] = paid) -> tuple[Answer, float]:
            good = rng.random() < dict(zip(NAMES, (0.6, 0.75, 0.9), strict=True))[agent] * (1.2 - 0.4 * hard)
            paid[0] += cost[agent]
            check = good != (rng.random() < error)
            return Answer(agent, check=check), float(good)

        if attempts == 1:
            decision = router.decide(Task())
            reward = world(decision.agent)[1]
            router.observe(decision.id, Outcome.completed(reward=reward))
        else:
            reward, _ = _play(router, world, attempts)
        total += (reward - paid[0]) * (t >= 300)
    return total / 300


@pytest.mark.parametrize(("error", "at_least"), [(0.0, 0.05), (0.3, -0.01)])
def test_a_check_helps_and_one_that_errs_does_not_harm(error, at_least):
    gains = [_net(3, error, seed) - _net(1, error, seed) for seed in range(4)]
    assert np.mean(gains) > at_least


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"attempts": 0}, "attempts"),
        ({"seen": [Answer("small"), Answer("small")], "attempts": 2}, "seen"),
        ({"seen": [Answer("nobody")], "attempts": 2}, "agent.id"),
    ],
)
def test_mistakes_are_named(arguments, field):
    with pytest.raises(InvalidInputError) as error:
        Orchestrator(NAMES).decide(Task(), **arguments)
    assert error.value.field == field


def test_dollars_of_every_answer_are_learned():
    router = Orchestrator(NAMES, objective=Objective(usd=1.0), seed=3)
    world = _world(np.random.default_rng(1))
    for _ in range(40):
        _play(router, world, 3)
    assert all(each["usd"] == pytest.approx(0.001, rel=0.5) for each in router.expected_usage().values())


def _spent_with_several_answers(seed):
    rng, usd = np.random.default_rng(seed), {"small": 0.001, "middle": 0.006, "large": 0.03}
    right = {"small": 0.5, "middle": 0.7, "large": 0.9}
    router = Orchestrator(
        [Agent(name, price=price) for name, price in usd.items()], constraints=[Budget(0.01)], seed=seed
    )
    spent = []
    for number in range(500):
        seen: list[Answer] = []
        decision = router.decide(Task(f"t{number}"), attempts=2)
        while decision.action == "ask":
            good = bool(rng.random() < right[decision.agent])
            check = float(good != (rng.random() < 0.1))
            seen.append(Answer(decision.agent, decision.id, check=check, key=good, cost_usd=usd[decision.agent]))
            decision = router.decide(Task(f"t{number}"), seen=seen, attempts=2)
        spent.append(sum(usd[each.agent] for each in seen))
        delivered = next(each for each in seen if each.agent == decision.agent)
        router.observe(decision.id, Outcome.completed(float(delivered.key)))
    return spent


def test_a_budget_is_per_task_and_holds_with_several_answers():
    spent = [_spent_with_several_answers(seed)[100:] for seed in range(4)]
    assert np.mean(spent) <= 0.0112


def test_the_policy_begins_where_it_knows_something_of_the_task():
    """Its choice reads features and learns what rounds earned; the model of answers does not."""
    router, rng = Orchestrator(NAMES, seed=1), np.random.default_rng(0)
    world = _world(rng)
    for number in range(40):
        task, seen = Task(features=(float(number % 2),)), list[Answer]()
        decision = router.decide(task, attempts=2)
        while decision.action == "ask":
            seen.append(Answer(decision.agent, decision.id, **_given(world(decision.agent)[0])))
            decision = router.decide(task, seen=seen, attempts=2)
        router.observe(decision.id, Outcome.completed(float(rng.random() < 0.5)))
    task = Task(features=(1.0,))
    alone, several = router.prepare(task), router.prepare(task, attempts=2)
    assert several.propensities.tolist() == alone.propensities.tolist()
    assert several.terms.estimate.tolist() == alone.terms.estimate.tolist()


def test_an_agent_that_gives_no_answer_later_in_a_round_is_expected_to_give_fewer():
    router = Orchestrator(NAMES, seed=1)
    first = router.decide(Task(), eligible=["small"], attempts=2)
    seen = [Answer("small", first.id, check=False)]
    gains = []
    for _ in range(2):
        step = router.prepare(Task(), seen=seen, attempts=2)
        gains.append(step.terms.estimate[2] - step.terms.estimate[0])
        for _ in range(20):
            asked = router.decide(Task(), eligible=["large"], seen=seen, attempts=2)
            if asked.action == "ask":
                router.observe(asked.id, Outcome.censored(elapsed_s=1.0, reason="crashed"))
    assert gains[1] < 0.5 * gains[0]
