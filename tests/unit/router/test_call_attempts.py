"""Several attempts within one deadline: every one a decision with its own propensities and outcome."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from bot_orch import Orchestrator, Outcome, Router, Task
from bot_orch.agents.endings import Ending
from bot_orch.errors import InvalidInputError
from bot_orch.router.attempts import CallAttempts

STILL = threading.Event()  # never set: an agent that hangs until its thread ends with the process


def _hang(task: Task) -> str:
    STILL.wait(5.0)
    return "late"


def _router(**settings: object) -> Router:
    return Router({"hangs": _hang, "answers": lambda task: "here"}, judge=lambda task, answer: 1.0, **settings)  # type: ignore[arg-type]


def test_an_agent_that_hangs_is_given_up_for_another() -> None:
    router, seen = _router(seed=3, floor=0.5), 0
    for _ in range(6):
        call = router.call(Task(), timeout_s=0.2, attempts=2, patience="half")
        assert call.answer == "here"
        if not call.earlier:
            continue
        seen += 1
        (first,) = call.earlier
        assert (first.decision.agent, call.decision.agent) == ("hangs", "answers")
        assert first.outcome is not None
        assert first.outcome.reward is None
        assert (first.outcome.reason, isinstance(first.error, TimeoutError)) == ("cancelled", True)
        assert 0.1 <= first.elapsed_s < 0.2
        assert call.decision.propensity == 1.0, "nobody else was left"
        assert first.decision.propensity < 1.0
    assert seen
    assert not router.pending


def test_a_failure_is_another_reason_to_ask_again() -> None:
    def fail(task: Task) -> str:
        raise ValueError("no")

    router = Router({"fails": fail, "answers": lambda task: "here"}, judge=lambda task, answer: 1.0, floor=1.0)
    calls = [router.call(Task(), timeout_s=5.0, attempts=2) for _ in range(8)]
    assert all(call.answer == "here" for call in calls)
    assert any(call.earlier and isinstance(call.earlier[0].error, ValueError) for call in calls)


def test_async_attempts() -> None:
    async def hang(task: Task) -> str:
        await asyncio.sleep(5.0)
        return "late"

    async def answer(task: Task) -> str:
        return "here"

    async def ask() -> list[str]:
        router = Router({"hangs": hang, "answers": answer}, "random", judge=lambda task, answer: 1.0, seed=1)
        calls = [await router.acall(Task(), timeout_s=0.1, attempts=2) for _ in range(6)]
        assert any(call.earlier for call in calls)
        return [call.answer for call in calls]

    assert asyncio.run(ask()) == ["here"] * 6


def test_the_last_attempt_ends_as_a_timeout() -> None:
    router = Router({"a": _hang, "b": _hang}, judge=lambda task, answer: 1.0)
    call = router.call(Task(), timeout_s=0.1, attempts=2)
    assert call.outcome is not None
    assert call.earlier[0].outcome is not None
    assert (call.earlier[0].outcome.reason, call.outcome.reason) == ("cancelled", "timeout")
    assert call.elapsed_s + call.earlier[0].elapsed_s < 0.5
    assert {call.decision.agent, call.earlier[0].decision.agent} == {"a", "b"}


def test_every_attempt_is_in_the_log(tmp_path: Path) -> None:
    pytest.importorskip("apsw")
    with _router(path=tmp_path / "log.db", floor=1.0, seed=0) as router:
        calls = [router.call(Task(), timeout_s=0.1, attempts=2, patience="half") for _ in range(4)]
        before = router.fingerprint()
    made = sum(1 + len(call.earlier) for call in calls)
    assert made > 4
    with _router(path=tmp_path / "log.db", floor=1.0, seed=0) as again:
        assert again.fingerprint() == before
        assert len(again.history()) == made


def test_stopping_early_teaches_only_what_it_says() -> None:
    """An agent that completes after 20 s and is given up after 1 s keeps its estimate; after 30 s it loses it."""
    estimates = {}
    for waited_s in (1.0, 30.0):
        router = Orchestrator(["slow", "other"], "epsilon-greedy", seed=0, floor=1.0)
        for number in range(120):
            decision = router.decide(Task())
            if decision.agent == "slow" and number >= 60:
                router.observe(decision.id, Outcome.censored(elapsed_s=waited_s, reason="cancelled"))
            else:
                router.observe(decision.id, Outcome.completed(1.0, elapsed_s=20.0))
        estimates[waited_s] = float(router.derive(Task()).terms.estimate[0])
    assert estimates[1.0] > 0.95
    assert estimates[30.0] < 0.7


def test_patience_follows_what_was_seen() -> None:
    router = Orchestrator(["early", "late"], "epsilon-greedy", seed=0, floor=1.0)
    for number in range(200):
        decision = router.decide(Task())
        early = decision.agent == "early"
        if early and number % 2:
            router.observe(decision.id, Outcome.censored(elapsed_s=100.0, reason="timeout"))
        else:
            router.observe(decision.id, Outcome.completed(1.0, elapsed_s=1.0 if early else 70.0))
    waits = {}
    while len(waits) < 2:
        decision = router.decide(Task())
        waits[decision.agent] = router.patience(decision, 100.0)
    assert waits["early"] <= 25.0 < 70.0 < waits["late"]
    assert router.patience(decision, 100.0, rule="half") == 50.0
    assert router.patience(decision, 100.0, eligible=[decision.agent]) == 100.0


def test_mistakes_are_named() -> None:
    router = _router()
    with pytest.raises(InvalidInputError, match="timeout_s"):
        router.call(Task(), attempts=2)
    with pytest.raises(InvalidInputError, match="attempts"):
        router.call(Task(), attempts=0)
    with pytest.raises(InvalidInputError, match="patience"):
        router.call(Task(), timeout_s=1.0, patience="long")  # type: ignore[arg-type]
    decision = router.decide(Task())
    with pytest.raises(InvalidInputError, match="deadline_s"):
        router.patience(decision, -1.0)


def test_turns_keep_to_the_deadline() -> None:
    router = Orchestrator(["a", "b", "c"], seed=0)
    turns = CallAttempts(router.agents, ["a", "b"], 8.0, attempts=3, rule="half")
    decision = router.decide(Task(), turns.eligible)
    assert turns.wait_for(decision, router.patience) == 4.0
    assert turns.expiry is Ending.CANCELLED_BY_CALLER
