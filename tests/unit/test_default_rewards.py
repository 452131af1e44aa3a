"""A default reward counts in full without reports; a report takes its place, and silence counts the less the more."""

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Router, Task
from bot_orch.core import outcome_learning
from bot_orch.errors import UnknownDecisionError
from bot_orch.rng import generator

DONE = Outcome.completed(1.0, elapsed_s=0.5)
KINDS = ("Translate the word {} into French, number {}", "Write a Python function that sorts a list of {}, version {}")
SUBJECTS = ("river", "stone", "market", "window", "coffee", "paper", "train", "garden")


def play(router, rounds, answer):
    """Ask; ``answer(number, agent)`` says how each round ends: with a failure (None), in silence or with a report."""
    for number in range(rounds):
        decision = router.decide(Task(f"t{number}"))
        said = answer(number, decision.agent)
        if said is None:
            router.observe(decision.id, Outcome(False, 0.0, 0.5, "crashed"))
            continue
        router.observe(decision.id, DONE, default=True)
        if said != "silent":
            router.observe(decision.id, Outcome.completed(said, elapsed_s=0.5))
    return router


def estimates(router):
    return dict(zip(router.agents, router.prepare(Task()).terms.estimate.tolist(), strict=True))


def lessons(router):
    return float(router._state.parts["policy"]["count"].sum())


def test_without_reports_completing_is_what_counts():
    def half(number, agent):
        return None if agent == "b" and number % 2 else "silent"

    router, plain = Orchestrator(["a", "b"], "ucb1", seed=1), Orchestrator(["a", "b"], "ucb1", seed=1)
    play(router, 100, half)
    for number in range(100):
        decision = plain.decide(Task(f"t{number}"))
        failed = half(number, decision.agent) is None
        plain.observe(decision.id, Outcome(False, 0.0, 0.5, "crashed") if failed else DONE)
    assert lessons(router) == 100 and estimates(router) == estimates(plain)


@pytest.mark.parametrize("restart", [False, True])
def test_a_report_takes_its_place_in_full(restart):
    router = Orchestrator(["a"], "ucb1", seed=1)
    decisions = [router.decide(Task(f"t{number}")) for number in range(3)]
    for decision in decisions:
        router.observe(decision.id, DONE, default=True)
    if restart:
        router = Orchestrator.from_json(router.to_json())
    assert all(router.is_provisional(decision.id) for decision in decisions)
    for decision in decisions:
        router.observe(decision.id, Outcome.completed(0.25, elapsed_s=0.5))
    assert estimates(router) == {"a": 0.25} and lessons(router) == 3
    with pytest.raises(UnknownDecisionError):
        router.observe(decisions[0].id, Outcome.completed(0.5))


def test_a_later_report_counts_whether_silence_was_a_lesson_or_not():
    router = play(Orchestrator(["a"], "ucb1", seed=1), 40, lambda number, _: 0.5 if number % 2 else "silent")
    waiting = [router.decide(Task(f"late{number}")) for number in range(30)]
    for decision in waiting:
        router.observe(decision.id, DONE, default=True)
    before = lessons(router)
    for decision in waiting:
        router.observe(decision.id, Outcome.completed(0.5, elapsed_s=0.5))
    assert before < 30 and lessons(router) - 50 <= 6, "twenty reports, thirty late ones, a few silent answers"
    assert router._state.parts["completion"]["reward"].sum() == pytest.approx(0.5 * 50 + 20)


def test_the_more_reports_the_less_silence_counts():
    def silent(share):
        def answer(number, _):
            return 0.5 if number * share % 1 + share >= 1 else "silent"

        router = play(Orchestrator(["a"], "ucb1", seed=1), 1000, answer)
        return (lessons(router) - router._state.parts["completion"]["reports"][0, 1]) / (1000 * (1 - share))

    found = [silent(share) for share in (0.0, 0.001, 0.01, 0.05, 0.25)]
    assert found[0] == 1.0 and found[1] > 0.8 and found[1] > found[2] > found[3]
    assert found[4] < 0.06, "a quarter of reports: one of twenty silent answers is a lesson"


def test_failures_are_no_larger_a_part_of_the_lessons_than_of_the_rounds():
    rng = generator("failures")

    def answer(_, agent):
        if rng.random() < 0.2:
            return None
        return float(rng.random() < 0.8) if rng.random() < 0.25 else "silent"

    router = play(Orchestrator(["a"], "ucb1", seed=1), 4000, answer)
    assert estimates(router)["a"] == pytest.approx(0.8 * 0.8, abs=0.05), "reports alone would say .40"


def test_complaints_alone_rank_the_agents():
    """Nobody praises: the share of answers with reports is what differs."""
    rng = generator("complaints")
    bad = {"a": 0.1, "b": 0.3}
    router = Orchestrator(["a", "b"], "ucb1", seed=1, floor=0.2)
    play(router, 1000, lambda _, agent: 0.0 if rng.random() < bad[agent] else "silent")
    assert estimates(router)["a"] > estimates(router)["b"] + 0.1


def told_apart(seed, *, default, rounds=600):
    """The share of the last hundred prompts that went to the agent that suits them, and the gap of the estimates."""
    rng, router, right = generator("kinds", seed), Orchestrator(["poet", "coder"], seed=seed), []
    for number in range(rounds):
        kind = int(rng.integers(2))
        decision = router.decide(Task(text=KINDS[kind].format(rng.choice(SUBJECTS), number)))
        right.append(decision.agent == ("poet", "coder")[kind])
        router.observe(decision.id, DONE, provisional=True, default=default)
        reward = float(rng.random() < (0.9 if right[-1] else 0.3))
        if rng.random() < 0.25:
            router.observe(decision.id, Outcome.completed(reward, elapsed_s=0.5))
    seen = [router.derive(Task(text=text.format("river", 1))).terms.estimate for text in KINDS]
    return np.mean(right[-100:]), (seen[0] @ [1.0, -1.0] + seen[1] @ [-1.0, 1.0]) / 2.0


def test_two_kinds_are_told_apart_by_thumbs_on_a_quarter():
    right, gap = np.transpose([told_apart(seed, default=True) for seed in range(4)])
    assert right.mean() > 0.9 and right.min() > 0.75
    assert gap.mean() > 0.45, "the truth is .6"


def test_control_silence_in_full_hides_most_of_the_difference():
    _, gap = np.transpose([told_apart(seed, default=False) for seed in range(4)])
    assert gap.mean() < 0.4


def test_a_router_with_a_file_goes_on_and_replays(tmp_path):
    path = tmp_path / "log.sqlite"
    with Router(["a", "b"], "ucb1", seed=1, path=path) as router:
        made = [router.decide(Task(f"t{number}")) for number in range(20)]
        for number, decision in enumerate(made):
            router.observe(decision.id, DONE, default=True)
            if number % 2:
                router.observe(decision.id, Outcome.completed(0.5, elapsed_s=0.5))
        live = router.fingerprint()
    with Router(["a", "b"], "ucb1", seed=1, path=path) as router:
        assert router.fingerprint() == live
        router.observe(made[0].id, Outcome.completed(0.5, elapsed_s=0.5))
        with pytest.raises(UnknownDecisionError):
            router.observe(made[0].id, Outcome.completed(0.5, elapsed_s=0.5))


@pytest.mark.parametrize("text", [False, True])
def test_auto_takes_a_lesson_back(text):
    """As if it had never been learned, up to the little that is forgotten since."""
    rng = generator("withdrawn")
    router, other = (Orchestrator(["a", "b"], seed=1) for _ in range(2))
    for number in range(40):
        task = Task(text=KINDS[number % 2].format(SUBJECTS[number % 8], number)) if text else Task()
        reward = float(rng.random() < 0.5)
        for each in (router, other):
            made = each.decide(task, ["ab"[number % 2]])
            each.observe(made.id, Outcome.completed(reward, elapsed_s=0.5))
    for number in range(5):
        task = Task(text=KINDS[0].format("river", 99 + number)) if text else Task()
        decision = router.decide(task, ["a"])
        router.observe(decision.id, DONE)
        state, engine = router._state, router._engine
        given = outcome_learning.feedback(engine, router._roster, decision, reward=np.array(1.0))
        engine.policy.withdraw(state.parts["policy"], given)
    mine, theirs = router._state.parts["policy"], other._state.parts["policy"]
    for name in ("count", "total", "theta", "inverse"):
        assert np.allclose(mine[name], theirs[name], atol=0.02), name


def test_what_silence_taught_is_taken_back_when_reports_come():
    router, waiting = Orchestrator(["a", "b"], seed=1), []
    for number in range(200):
        decision = router.decide(Task(f"t{number}"))
        router.observe(decision.id, DONE, default=True)
        waiting.append(decision)
    assert lessons(router) == 200
    for decision in waiting[1::4]:
        router.observe(decision.id, Outcome.completed(0.25, elapsed_s=0.5))
    total = router._state.parts["policy"]["total"].sum()
    assert lessons(router) < 70 and total / lessons(router) < 0.4, "fifty reports, and a few silent answers"
    again = Orchestrator.from_json(router.to_json())
    for each in (router, again):
        each.observe(waiting[0].id, Outcome.completed(0.25, elapsed_s=0.5))
    assert again.fingerprint() == router.fingerprint()
