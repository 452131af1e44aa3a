"""The router for threads: nothing lost, nothing twice, and the same decisions as the orchestrator inside it."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bot_orch import Agent, InvalidInputError, Labels, Orchestrator, Outcome, Router, Task
from bot_orch.agents.base import CallFailure
from bot_orch.agents.endings import Ending
from bot_orch.clock import ManualClock, SteadyClock
from bot_orch.core.reward import SurvivalReward
from bot_orch.errors import ConcurrentUseError, UnknownAgentError, UnknownDecisionError
from bot_orch.policies.ucb1 import UCB1

THREADS, EACH = 8, 500


class Recording(Orchestrator):
    """Writes down the calls in the order in which they took effect."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.calls = []

    def decide(self, task, eligible=None, **how):
        decision = super().decide(task, eligible, **how)
        self.calls.append(("decide", task, decision))
        return decision

    def observe(self, decision_id, outcome, **how):
        super().observe(decision_id, outcome, **how)
        self.calls.append(("observe", decision_id, outcome))


def reward_of(agent):
    return {"a": 0.2, "b": 0.9}.get(agent, 0.5)


def play(router, thread, each=EACH):
    """Decide and observe, each outcome one decision late."""
    made, waiting = [], None
    for number in range(each):
        decision = router.decide(Task(f"{thread}-{number}"))
        if waiting is not None:
            router.observe(waiting.id, Outcome.completed(reward=reward_of(waiting.agent)))
        waiting = decision
        made.append(decision)
    router.observe(waiting.id, Outcome.completed(reward=reward_of(waiting.agent)))
    return made


def in_threads(work, threads=THREADS):
    """What ``work(thread)`` returns in each of several threads that are switched as often as can be."""
    barrier = threading.Barrier(threads)

    def run(thread):
        barrier.wait()
        return work(thread)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            return [future.result() for future in [pool.submit(run, thread) for thread in range(threads)]]
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("policy", ["bot", "thompson-beta"])
def test_threads_get_what_some_serial_order_gives(policy):
    inner = Recording(["a", "b", "c"], policy, seed=3, ids="derived")
    router = Router(inner)
    made = [decision for each in in_threads(lambda thread: play(router, thread)) for decision in each]
    assert len({decision.id for decision in made}) == THREADS * EACH
    assert {decision.key.counter for decision in made} == set(range(THREADS * EACH))
    assert len({decision.state_seq for decision in made}) == THREADS * EACH
    assert router.pending == () and len(inner.calls) == 2 * THREADS * EACH

    serial = Orchestrator(["a", "b", "c"], policy, seed=3, ids="derived")
    for kind, what, came in inner.calls:
        if kind == "decide":
            assert serial.decide(what).to_dict() == came.to_dict()
        else:
            serial.observe(what, came)
    assert serial.fingerprint() == router.fingerprint()


def test_the_orchestrator_alone_refuses_the_same_threads():
    orchestrator = Orchestrator(["a", "b", "c"], seed=3)
    with pytest.raises(ConcurrentUseError, match="bot_orch.Router"):
        in_threads(lambda thread: play(orchestrator, thread))


def test_saving_and_changing_agents_while_others_decide(tmp_path):
    router = Router(["a", "b"], "ucb1", seed=1)

    def work(thread):
        if thread:
            return play(router, thread, 100)
        for number in range(20):
            router.add_agent(f"new-{number}")
            router.save(tmp_path / "router.json")
            assert len(Router.load(tmp_path / "router.json").agents) == 3
            router.derive(Task())
            router.remove_agent(f"new-{number}")
        return []

    made = [decision for each in in_threads(work, 4) for decision in each]
    assert len({decision.id for decision in made}) == 300
    assert router.agents == ("a", "b") and router.pending == ()


@pytest.mark.parametrize("policy", ["bot", "ucb1", "auto"])
def test_one_thread_decides_as_the_orchestrator_does(policy, tmp_path):
    settings = {"seed": 7, "lambda_": 0.5, "floor": 0.05, "ids": "derived"}
    agents = [Agent("a", cost=0.1), Agent("b", profile=Labels([0.2, 0.8])), "c"]
    router, plain = Router(agents, policy, **settings), Orchestrator(agents, policy, **settings)
    for number in range(60):
        task = Task(f"t-{number}", reference=Labels([0.5, 0.5]))
        eligible = ("a", "c") if number % 5 == 0 else None
        assert router.derive(task, eligible).to_dict() == plain.derive(task, eligible).to_dict()
        ours, theirs = router.decide(task, eligible), plain.decide(task, eligible)
        assert ours.to_dict() == theirs.to_dict()
        assert router.pending == plain.pending == (ours.id,)
        for each in (router, plain):
            if number % 7 == 0:
                each.observe_all(ours.id, dict.fromkeys("abc", 0.5))
            else:
                each.observe(ours.id, Outcome.completed(reward=reward_of(ours.agent)))
    router.save(tmp_path / "router.json")
    assert Orchestrator.load(tmp_path / "router.json").fingerprint() == plain.fingerprint() == router.fingerprint()


def test_a_policy_that_calls_back_gets_an_error_and_no_deadlock():
    class Meddling(UCB1):
        def choose(self, *args):
            router.decide(Task("again"))

    router = Router(["a", "b"], Meddling())
    before = router.fingerprint()
    with pytest.raises(ConcurrentUseError):
        router.decide(Task())
    assert router.fingerprint() == before


# calls ---------------------------------------------------------------------------------------------------------------


def test_calls_learn_what_decide_and_observe_would():
    clock = ManualClock()

    def slow(task):
        clock.advance(1.5)
        return task.text.upper()

    router = Router(
        {"slow": slow, "quick": lambda task: task.text},
        "ucb1",
        seed=2,
        judge=lambda task, answer: answer != task.text,
        clock=clock,
        ids="derived",
    )
    plain = Orchestrator(["slow", "quick"], "ucb1", seed=2, ids="derived")
    for number in range(30):
        call, decision = router.call(Task(f"t-{number}", text="x")), plain.decide(Task(f"t-{number}", text="x"))
        assert call.decision.to_dict() == decision.to_dict()
        good = decision.agent == "slow"
        assert call.outcome == Outcome.completed(float(good), elapsed_s=1.5 * good)
        assert call.result() == call.answer == ("X" if good else "x")
        plain.observe(decision.id, Outcome.completed(float(good), elapsed_s=1.5 * good))
    assert router.fingerprint() == plain.fingerprint()


def test_agents_work_at_the_same_time():
    together = threading.Barrier(4, timeout=20)  # breaks unless four are inside at once
    router = Router({"a": lambda task: together.wait(), "b": lambda task: together.wait()}, judge=lambda *_: 1.0)
    with ThreadPoolExecutor(4) as pool:
        calls = list(pool.map(router.call, [Task(str(number)) for number in range(4)]))
    assert sorted(call.result() for call in calls) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("error", "reward", "reason"),
    [
        (ValueError("no"), 0.0, "crashed"),
        (MemoryError(), 0.0, "out_of_memory"),
        (TimeoutError(), 0.0, "crashed"),
        (CallFailure(Ending.UPSTREAM_5XX), 0.0, "failed"),
        (CallFailure(Ending.RATE_LIMITED), None, "not_applicable"),
        (CallFailure(Ending.REFUSED_BUSY), None, "not_applicable"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_is_an_outcome(error, reward, reason):
    clock = ManualClock()

    def fail(task):
        clock.advance(2.0)
        raise error

    for router in (Router({"a": fail}, clock=clock), Router({"a": fail}, reward=SurvivalReward(), clock=clock)):
        call = router.call(Task())
        assert call.outcome == Outcome(False, reward, 2.0, reason) and call.elapsed_s == 2.0
        assert call.error is error and call.answer is None and router.pending == ()
        with pytest.raises(type(error)):
            call.result()


def test_failures_lower_the_estimate():
    router = Router({"broken": lambda task: 1 / 0, "works": lambda task: 1}, "ucb1", judge=lambda *_: 0.5)
    calls = [router.call(Task()) for _ in range(40)]
    assert sum(call.error is None for call in calls) > 25
    assert router.derive(Task()).terms.estimate.tolist() == [0.0, 0.5]


def test_an_interrupt_is_censored_and_goes_on():
    def interrupted(task):
        raise KeyboardInterrupt

    inner = Recording(["a"])
    router = Router(inner, functions={"a": interrupted}, clock=ManualClock())
    with pytest.raises(KeyboardInterrupt):
        router.call(Task())
    assert inner.calls[-1][2] == Outcome.censored(elapsed_s=0.0, reason="cancelled") and router.pending == ()


def test_without_a_judge_the_caller_observes():
    for judge in (None, lambda task, answer: None):
        router = Router({"a": lambda task: 42}, judge=judge)
        call = router.call(Task())
        assert (call.answer, call.outcome, router.pending) == (42, None, (call.decision.id,))
        router.observe(call.decision.id, Outcome.completed(reward=1.0))
        assert router.pending == ()


def test_a_judge_may_give_a_whole_outcome():
    output = Labels([0.0, 1.0])
    clock = ManualClock()
    judged = Outcome.completed(1.0, output=output)
    router = Router({"a": lambda task: clock.advance(3.0)}, judge=lambda *_: judged, clock=clock)
    assert router.call(Task()).outcome == Outcome.completed(1.0, elapsed_s=3.0, output=output)
    later = Router({"a": lambda task: 1}, judge=lambda *_: Outcome.completed(elapsed_s=9.0), reward=SurvivalReward())
    assert later.call(Task()).outcome == Outcome.completed(elapsed_s=9.0)


@pytest.mark.parametrize("judge", [lambda task, answer: 1 / 0, lambda task, answer: 2.0])
@pytest.mark.parametrize("several", [False, True])
def test_a_judge_that_fails_costs_no_answer_and_leaves_the_decision_pending(judge, several, caplog):
    router = Router({"a": lambda task: 42, "b": lambda task: 42}, judge=judge)
    more = {"attempts": 2, "check": lambda task, answer: True} if several else {}
    call, again = (router.call(Task(), **more) for _ in range(2))
    assert call.result() == again.result() == 42
    assert isinstance(call.unjudged, ZeroDivisionError | InvalidInputError) and call.outcome is None
    assert call.decision.id in router.pending
    assert call.decision.id in call.unjudged.__notes__[0]
    assert [record.getMessage()[:35] for record in caplog.records] == ["the judge failed for the first time"]
    router.observe(call.decision.id, Outcome.completed(1.0))


def test_an_async_judge_that_fails_costs_no_answer():
    async def answer(task):
        return 42

    async def fail(task, answer):
        raise ValueError("no verdict")

    router = Router({"a": answer}, judge=fail)
    call = asyncio.run(router.acall(Task()))
    assert (call.answer, str(call.unjudged)) == (42, "no verdict")


def test_an_interrupted_judge_is_no_failed_judge():
    def interrupted(task, answer):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Router({"a": lambda task: 42}, judge=interrupted).call(Task())


def test_a_clock_that_jumps_back_gives_no_negative_time():
    clock = ManualClock()
    router = Router({"a": lambda task: clock.advance(-60.0)}, judge=lambda *_: 1.0, clock=clock)
    assert router.call(Task()).elapsed_s == 0.0


def test_the_default_clock_keeps_wall_time_and_does_not_follow_its_jumps(monkeypatch):
    clock = SteadyClock()
    before = clock.now_us()
    monkeypatch.setattr("time.time_ns", lambda: 0)
    assert 0 <= clock.now_us() - before < 60_000_000
    assert before > 1_600_000_000_000_000


def test_agents_come_and_go_with_their_functions():
    router = Router({"a": lambda task: "a"}, judge=lambda *_: 1.0)
    router.add_agent(Agent("b", cost=0.1), lambda task: "b")
    assert router.call(Task(), eligible=["b"]).answer == "b"
    router.remove_agent("b")
    router.add_agent("b")
    with pytest.raises(InvalidInputError, match="functions.b: is missing"):
        router.call(Task())
    assert router.call(Task(), eligible=["a"]).answer == "a"
    with pytest.raises(UnknownAgentError):
        router.call(Task(), eligible=["nobody"])
    assert router.pending == ()


def test_an_agent_may_leave_while_it_works():
    router = Router({"a": lambda task: router.remove_agent("a"), "b": lambda task: 1}, judge=lambda *_: 1.0)
    assert router.call(Task(), eligible=["a"]).outcome is not None
    assert router.agents == ("b",) and router.pending == ()


def test_an_outcome_given_meanwhile_is_not_taken_twice():
    router = Router({"a": lambda task: router.observe(router.pending[0], Outcome.completed(1.0))}, judge=lambda *_: 1.0)
    with pytest.raises(UnknownDecisionError):
        router.call(Task())


def test_mistakes_are_told():
    async def later(task):
        return 1

    with pytest.raises(UnknownAgentError, match="functions.b: belongs to no agent"):
        Router(["a"], functions={"b": str})
    with pytest.raises(InvalidInputError, match="functions.a: is 3"):
        Router({"a": 3})
    with pytest.raises(InvalidInputError, match="given twice"):
        Router({"a": str}, functions={"a": str})
    with pytest.raises(InvalidInputError, match=r"\['policy', 'seed'\] come too late"):
        Router(Orchestrator(["a"]), "ucb1", seed=3)
    router = Router({"a": later})
    with pytest.raises(InvalidInputError, match="functions.a: is async; use acall"):
        router.call(Task())
    with pytest.raises(InvalidInputError, match="function"):
        router.add_agent("b", "not callable")
    with pytest.raises(InvalidInputError, match="judge: is async; use acall"):
        Router({"a": str}, judge=later).call(Task())
    with pytest.raises(InvalidInputError, match="timeout_s: is 0"):
        asyncio.run(router.acall(Task(), timeout_s=0))
    assert router.agents == ("a",) and router.pending == ()


def test_load_takes_functions_and_judge(tmp_path):
    functions, judge = {"a": lambda task: 1, "b": lambda task: 0}, lambda task, answer: float(answer)
    router = Router(functions, "thompson-beta", seed=4, judge=judge)
    for _ in range(20):
        router.call(Task())
    router.save(tmp_path / "router.json")
    again = Router.load(tmp_path / "router.json", functions=functions, judge=judge)
    pairs = [(router.call(Task()), again.call(Task())) for _ in range(20)]
    assert all(one.decision.to_dict() == other.decision.to_dict() for one, other in pairs)


def test_the_router_is_imported_when_asked_for():
    code = (
        "import sys, bot_orch; print('asyncio' in sys.modules, 'bot_orch.router' in sys.modules);"
        "bot_orch.Router; print('bot_orch.router' in sys.modules, hasattr(bot_orch, 'nonsense'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True", "False"]


# async ---------------------------------------------------------------------------------------------------------------


def test_async_calls_wait_together():
    async def run():
        inside, open_ = 0, asyncio.Event()

        async def agent(task):
            nonlocal inside
            inside += 1
            if inside == 50:
                open_.set()
            await open_.wait()
            return task.id

        async def judge(task, answer):
            await asyncio.sleep(0)
            return float(task.id == answer)

        router = Router({"a": agent, "b": agent}, judge=judge)
        async with asyncio.timeout(20):
            calls = await asyncio.gather(*(router.acall(Task(str(number))) for number in range(50)))
        assert [call.result() for call in calls] == [str(number) for number in range(50)]
        assert {call.outcome.reward for call in calls} == {1.0}
        assert len({call.decision.id for call in calls}) == 50 and router.pending == ()

    asyncio.run(run())


def test_a_timeout_is_censored():
    async def never(task):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(task.id)

    cancelled = []
    router = Router({"a": never}, clock=ManualClock(), judge=lambda *_: 1.0)
    call = asyncio.run(router.acall(Task("t"), timeout_s=0.01))
    assert call.outcome == Outcome.censored(elapsed_s=0.0, reason="timeout")
    assert isinstance(call.error, TimeoutError) and cancelled == ["t"] and router.pending == ()
    timed = Router({"a": never})
    assert asyncio.run(timed.acall(Task("u"), timeout_s=0.05)).outcome.elapsed_s >= 0.04


def test_the_agents_own_timeout_is_a_failure():
    async def gives_up(task):
        raise TimeoutError("upstream")

    call = asyncio.run(Router({"a": gives_up}).acall(Task(), timeout_s=20))
    assert (call.outcome.reason, call.outcome.reward) == ("crashed", 0.0)


def test_a_cancelled_call_is_censored():
    async def run():
        begun = asyncio.Event()

        async def agent(task):
            begun.set()
            await asyncio.Event().wait()

        inner = Recording(["a"])
        router = Router(inner, functions={"a": agent}, clock=ManualClock())
        work = asyncio.create_task(router.acall(Task(), timeout_s=20))
        await begun.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert inner.calls[-1][2] == Outcome.censored(elapsed_s=0.0, reason="cancelled") and router.pending == ()

    asyncio.run(run())


def test_functions_that_are_not_async_do_not_block_the_loop():
    async def run():
        loop, here, release = asyncio.get_running_loop(), threading.get_ident(), threading.Event()

        def waits(task):
            assert threading.get_ident() != here
            assert loop.call_soon_threadsafe(release.set) and release.wait(20)  # needs a loop that runs
            return "done"

        class Later:
            async def __call__(self, task):
                return "later"

        router = Router({"sync": waits, "object": Later(), "lambda": lambda task: Later()(task)}, judge=lambda *_: 1.0)
        answers = [(await router.acall(Task(), [name])).result() for name in router.agents]
        assert answers == ["done", "later", "later"]

    asyncio.run(run())


def test_threads_and_tasks_share_a_router():
    async def agent(task):
        await asyncio.sleep(0)
        return 1.0

    inner = Recording(["a", "b"], "ucb1")
    router = Router(inner, functions={"a": agent, "b": agent}, judge=lambda task, answer: answer)

    async def many(thread):
        return await asyncio.gather(*(router.acall(Task(f"{thread}-{number}")) for number in range(50)))

    calls = [call for each in in_threads(lambda thread: asyncio.run(many(thread)), 4) for call in each]
    assert len({call.decision.id for call in calls}) == 200
    assert router.pending == () and len(inner.calls) == 400
