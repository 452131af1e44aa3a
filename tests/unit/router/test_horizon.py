"""Decisions without an outcome end at the horizon; slow functions end at their timeout; alarms are told."""

import logging
import threading

import numpy as np
import pytest

from bot_orch import Alignment, InvalidInputError, Orchestrator, Outcome, Router, Samples, Task, Watch
from bot_orch.clock import ManualClock
from bot_orch.errors import UnknownDecisionError
from bot_orch.transport import Scores


def test_forgotten_decisions_are_censored_at_the_next_decision():
    clock = ManualClock()
    router = Router(["a", "b"], "ucb1", horizon_s=60.0, clock=clock)
    forgotten = router.decide(Task("old"))
    clock.advance(59.0)
    recent = router.decide(Task("recent"))
    assert router.pending == (forgotten.id, recent.id)
    clock.advance(2.0)
    router.decide(Task("new"))
    assert forgotten.id not in router.pending and recent.id in router.pending
    row = next(row for row in router.history() if row["task"] == "old")
    assert (row["completed"], row["reason"], row["elapsed_s"]) == (False, "horizon", 61.0)
    with pytest.raises(UnknownDecisionError):
        router.observe(forgotten.id, Outcome.censored(elapsed_s=90.0, reason="cancelled"))
    router.observe(forgotten.id, Outcome.completed(1.0))  # a reward replaces the silence
    assert next(row for row in router.history() if row["task"] == "old")["reward"] == 1.0


def test_expire_says_what_it_ended_and_equals_observing_it():
    clock = ManualClock()
    router, plain = Router(["a"], "ucb1", horizon_s=5.0, silence="timeout", clock=clock), Orchestrator(["a"], "ucb1")
    made = router.decide(Task("t"))
    assert router.expire() == ()
    clock.advance(5.0)
    assert router.expire() == (made.id,) and router.pending == () and router.expire() == ()
    plain.observe(plain.decide(Task("t")).id, Outcome.censored(elapsed_s=5.0, reason="timeout"))
    assert router.fingerprint() == plain.fingerprint()


def test_without_a_horizon_nothing_expires():
    clock = ManualClock()
    router = Router(["a"], clock=clock)
    router.decide(Task("t"))
    clock.advance(1e9)
    router.decide(Task("u"))
    assert router.expire() == () and len(router.pending) == 2


def test_a_loaded_router_waits_anew_for_what_was_pending(tmp_path):
    router = Router(["a"])
    made = router.decide(Task("t"))
    router.save(tmp_path / "router.json")
    clock = ManualClock()
    again = Router.load(tmp_path / "router.json", horizon_s=10.0, clock=clock)
    assert again.expire() == ()
    clock.advance(10.0)
    assert again.expire() == (made.id,)


def test_a_call_in_progress_does_not_expire():
    clock = ManualClock()

    def slow(task):
        clock.advance(100.0)
        assert router.expire() == ()
        return "done"

    router = Router({"slow": slow}, horizon_s=10.0, clock=clock, judge=lambda *_: 1.0)
    assert router.call(Task()).outcome == Outcome.completed(1.0, elapsed_s=100.0)
    unjudged = Router({"a": lambda task: 1}, horizon_s=10.0, clock=clock)
    made = unjudged.call(Task()).decision
    clock.advance(11.0)
    assert unjudged.expire() == (made.id,)  # answered, never judged: only the reward is missing
    row = unjudged.history()[-1]
    assert (row["completed"], row["reward"], row["elapsed_s"], row["reason"]) == (True, None, 0.0, None)


def test_decisions_that_ended_by_rounds_do_not_expire_again():
    clock = ManualClock()
    router = Router(["a"], horizon=3, horizon_s=10.0, clock=clock)
    made = [router.decide(Task()).id for _ in range(8)]
    assert router.pending == tuple(made[-3:])
    clock.advance(11.0)
    assert router.expire() == tuple(made[-3:]) and router.pending == ()


# timeouts ------------------------------------------------------------------------------------------------------------


def test_a_call_ends_at_its_timeout_and_the_function_runs_on():
    release, ended = threading.Event(), threading.Event()

    def slow(task):
        assert release.wait(20)
        ended.set()
        return "late"

    router = Router({"slow": slow}, judge=lambda *_: 1.0, clock=ManualClock())
    call = router.call(Task("t"), timeout_s=0.02)
    assert call.outcome == Outcome.censored(elapsed_s=0.0, reason="timeout") and router.pending == ()
    assert isinstance(call.error, TimeoutError) and "slow did not answer in 0.02 s" in str(call.error)
    release.set()
    assert ended.wait(20)


def test_within_its_timeout_a_call_is_as_without():
    def fail(task):
        raise TimeoutError("its own")

    router = Router({"a": lambda task: task.text.upper()}, judge=lambda *_: 1.0)
    assert router.call(Task(text="x"), timeout_s=20.0).result() == "X"
    call = Router({"a": fail}).call(Task(), timeout_s=20.0)
    assert (call.outcome.reason, call.outcome.reward) == ("crashed", 0.0)


def test_an_agent_that_never_answers_in_time_loses_its_traffic():
    hang = threading.Event()
    functions = {"hangs": lambda task: hang.wait(20), "works": lambda task: 1}
    router = Router(functions, "ucb1", judge=lambda *_: 0.6, floor=0.0)
    calls = [router.call(Task(), timeout_s=0.005) for _ in range(60)]
    hang.set()
    assert sum(call.decision.agent == "hangs" for call in calls[30:]) < 10


# alarms --------------------------------------------------------------------------------------------------------------


WATCHED = Alignment(Scores(), watch=Watch(20, 40, 0.01))


def drifting(on_alarm):
    """A router whose agent's outputs move after 80 rounds."""
    rng = np.random.default_rng(3)
    router = Router(["a"], "ucb1", alignment=WATCHED, on_alarm=lambda agent, count: on_alarm(router, agent, count))
    for number in range(160):
        made = router.decide(Task(reference=Samples([0.2, 0.3])))
        output = Samples([float(np.clip(rng.normal(0.2 if number < 80 else 0.8, 0.05), 0, 1))])
        router.observe(made.id, Outcome.completed(0.5, output=output))
    return router


def test_alarms_are_told_once_each():
    told = []
    router = drifting(lambda _, agent, count: told.append((agent, count)))
    counts = router.drift_alarms()
    assert counts["a"] >= 1 and told == [("a", number) for number in range(1, counts["a"] + 1)]


def test_a_callback_that_fails_is_logged_and_loses_nothing(caplog):
    with caplog.at_level(logging.ERROR, "bot_orch"):
        router = drifting(lambda *_: 1 / 0)
    assert "on_alarm failed for agent 'a'" in caplog.text and router.pending == ()


def test_a_callback_may_use_the_router():
    sizes = []
    drifting(lambda router, agent, count: sizes.append(len(router.history())))
    assert len(sizes) == 1 and 80 < sizes[0] < 160


def test_a_callback_that_nothing_would_call_is_refused():
    with pytest.raises(InvalidInputError, match="on_alarm: would never be called"):
        Router(["a"], on_alarm=print)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon_s": 0}, "horizon_s: is 0; pass seconds, more than zero"),
        ({"horizon_s": "60"}, "horizon_s: is '60'"),
        ({"silence": "never"}, "silence: is 'never'; choose one of horizon, timeout"),
        ({"judge": 3}, "judge: is 3; pass a function"),
        ({"on_alarm": "mail"}, "on_alarm: is 'mail'; pass 'count' or 'restart'"),
        ({"history": -1}, "history: is -1; pass how many rounds"),
        ({"path": 3}, "path: is 3; pass the path of a file"),
        ({"functions": [1]}, "functions: is of type list; pass functions by agent name"),
    ],
)
def test_wrong_arguments_are_told(arguments, message):
    with pytest.raises(InvalidInputError, match=message.replace("(", r"\(")):
        Router(["a"], **arguments)
