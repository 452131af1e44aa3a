"""Answers that are checked before delivery: ``Router.call(..., attempts=3, check=...)``."""

from __future__ import annotations

import asyncio
import contextlib

import numpy as np
import pytest

from bot_orch import Agent, InvalidInputError, Outcome, Router, Task, UnknownDecisionError
from bot_orch.clock import ManualClock
from bot_orch.errors import PriceWarning


def _fails(task: Task) -> str:
    raise RuntimeError("down")


def _router(**functions):
    return Router(list(functions), functions=functions, judge=lambda task, answer: float(answer == "good"), seed=1)


def test_a_failed_check_asks_another_agent_and_delivers_what_passed():
    router = _router(bad=lambda task: "bad", good=lambda task: "good")
    calls = [router.call(Task(), attempts=2, check=lambda task, answer: answer == "good") for _ in range(60)]
    late = calls[30:]
    assert sum(call.answer == "good" for call in late) >= 28
    assert all(call.decision.action == "accept" for call in calls)
    assert all(call.outcome is not None for call in calls)
    assert router.pending == ()


@pytest.mark.parametrize("judged", [True, False])
def test_a_passed_check_ends_the_round(judged):
    """With a check that never errs, another agent is asked after a failed check and never after a passed one."""
    right = np.random.default_rng(1).random((300, 3)) < (0.7, 0.6, 0.5)
    functions = {name: lambda task, agent=agent: right[int(task.id), agent] for agent, name in enumerate("abc")}
    judge = (lambda task, answer: float(answer)) if judged else None
    router = Router(list(functions), functions=functions, judge=judge, seed=1)
    calls = [router.call(Task(id=str(t)), attempts=2, check=lambda task, answer: answer) for t in range(300)]
    asked = [[right[t, "abc".index(each.agent)] for each in call.decision.answers] for t, call in enumerate(calls)]
    first_passed = [len(each) for each in asked if each[0]]
    assert len(first_passed) > 150 and set(first_passed) == {1}
    assert sum(len(each) == 2 for each in asked if not each[0]) > 50
    assert all(call.answer for call, each in zip(calls, asked, strict=True) if any(each))


def test_a_check_that_says_how_far_an_answer_passed_is_weighed():
    """A number below one is evidence: an answer that passed half-way does not end the round."""
    router = _router(bad=lambda task: "bad", good=lambda task: "good")
    share = {"bad": 0.1, "good": 0.9}
    calls = [router.call(Task(), attempts=2, check=lambda task, answer: share[answer]) for _ in range(60)]
    assert any(len(call.earlier) == 1 for call in calls)
    assert sum(call.answer == "good" for call in calls[30:]) >= 28


def test_async_checks_and_their_fields():
    router = _router(bad=lambda task: "bad", good=lambda task: "good")

    async def check(task, answer):
        return {"check": answer == "good", "signal": 0.5, "label": answer}

    async def run():
        return [await router.acall(Task(), attempts=2, check=check) for _ in range(20)]

    calls = asyncio.run(run())
    assert calls[-1].decision.answers[0].signal == 0.5
    assert router.pending == ()


def test_an_agent_that_fails_leaves_the_others():
    router = _router(down=_fails, good=lambda task: "good")
    for _ in range(10):
        assert router.call(Task(), attempts=2, check=lambda task, answer: True).answer == "good"
    assert router.pending == ()


def test_a_log_of_steps_gives_the_same_router(tmp_path):
    functions = {"bad": lambda task: "bad", "good": lambda task: "good"}
    given = {"functions": functions, "judge": lambda task, answer: float(answer == "good"), "seed": 1}
    with Router(list(functions), path=tmp_path / "r.db", **given) as router:
        for _ in range(10):
            router.call(Task(), attempts=2, check=lambda task, answer: answer == "good")
        before = router.fingerprint()
    with Router(list(functions), path=tmp_path / "r.db", **given) as again:
        assert again.fingerprint() == before


def test_mistakes_are_named():
    router = _router(good=lambda task: "good")
    with pytest.raises(InvalidInputError, match="check"):
        router.call(Task(), check=lambda task, answer: True)
    two = _router(bad=lambda task: "bad", good=lambda task: "good")
    call = two.call(Task(), attempts=2, check=lambda task, answer: {"sure": 1.0})
    assert str(call.unjudged) == "check: returned ['sure']; return a number, or fields of Answer"


def test_earlier_attempts_count_the_same_with_and_without_a_check():
    """One per agent that was asked and whose answer was not delivered."""
    for down, asked in (("", 1), ("a", 2)):
        functions = {name: _fails if name == down else lambda task: "x" for name in "ab"}
        for more in ({"timeout_s": 60.0}, {"check": lambda task, answer: True}):
            router = Router(list(functions), "random", functions=functions, seed=1, judge=lambda task, answer: 1.0)
            calls = [router.call(Task(), attempts=2, **more) for _ in range(12)]
            assert {len(call.earlier) for call in calls} == set(range(asked))
            assert all(call.decision.agent != each.decision.agent for call in calls for each in call.earlier)
    both = Router(list("ab"), functions={name: lambda task: "x" for name in "ab"}, seed=1)
    call = both.call(Task(), attempts=2, check=lambda task, answer: False)
    assert [each.decision.agent for each in (*call.earlier, call)] in (["a", "b"], ["b", "a"])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_check_that_fails_costs_no_answer_and_says_nothing_of_it(asynchronous):
    def check(task, answer):
        raise ValueError("no verdict")

    async def later(task, answer):
        raise ValueError("no verdict")

    router = _router(good=lambda task: "good", fine=lambda task: "good")
    for _ in range(5):
        if asynchronous:
            call = asyncio.run(router.acall(Task(), attempts=2, check=later))
        else:
            call = router.call(Task(), attempts=2, check=check)
        assert (call.answer, str(call.unjudged)) == ("good", "no verdict")
        assert call.outcome.reward == 1.0 and call.decision.answers[0].check is None
    assert router.pending == ()


def test_without_an_objective_prices_break_ties_and_a_tie_delivers():
    """Two agents of equal worth: the cheaper one begins, and nothing is asked after its answer."""
    agents = [Agent("dear", price=0.1), Agent("cheap", price=0.01)]
    functions = {"dear": lambda task: 1, "cheap": lambda task: 1}
    with pytest.warns(PriceWarning):
        router = Router(agents, functions=functions, seed=1, judge=lambda task, answer: 1.0, floor=0.0)
    calls = [router.call(Task(), attempts=2, check=lambda task, answer: 0.5) for _ in range(80)][40:]
    assert sum(len(call.decision.answers) == 1 for call in calls) >= 38
    assert sum(call.decision.agent == "cheap" for call in calls) >= 38


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("which", ["first", "middle", "accepted"])
def test_any_step_of_a_delivered_round_reports_the_whole_round_once(which, logged, tmp_path):
    names = ["a", "b", "c"]
    functions = {name: lambda task: "x" for name in names}
    path = tmp_path / "log.sqlite" if logged else None
    with contextlib.closing(Router(names, functions=functions, floor=0.9, seed=1, path=path)) as router:
        calls = [router.call(Task(), attempts=3, check=lambda task, answer: 0.1) for _ in range(20)]
        call = next(each for each in calls if len(each.earlier) == 2)
        others = len(router.pending) - 4
        steps = [*(each.decision for each in call.decision.answers), call.decision.id]
        assert steps[0] == call.decision.round
        router.observe({"first": steps[0], "middle": steps[1], "accepted": steps[-1]}[which], Outcome.completed(1.0))
        assert len(router.pending) == others, "the other rounds wait, nothing of this one does"
        for step in steps:
            with pytest.raises(UnknownDecisionError):
                router.observe(step, Outcome.completed(0.0))


def test_silence_ends_the_steps_of_a_round_one_by_one():
    clock = ManualClock(1_000_000)
    router = Router({"a": lambda task: "x", "b": lambda task: "y"}, floor=0.9, seed=1, horizon_s=10.0, clock=clock)
    for _ in range(5):
        router.call(Task(), attempts=2, check=lambda task, answer: 0.1)
    waiting = router.pending
    clock.advance(11.0)
    assert set(router.expire()) <= set(waiting)
    assert not router.pending
