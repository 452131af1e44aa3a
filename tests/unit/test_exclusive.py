"""The notice of concurrent use: no two calls overlap, whoever was refused changed nothing, the token comes back."""

import signal
import sys
import threading
import time

import pytest

from bot_orch import ConcurrentUseError, InvalidInputError, Orchestrator, Outcome, Task
from bot_orch.core.exclusive import exclusive
from bot_orch.errors import BotOrchError, UnknownDecisionError
from bot_orch.policies.ucb1 import UCB1


class Gate(UCB1):
    """Stops inside ``choose`` until it is let go."""

    id = "gate"

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "entered", threading.Event())
        object.__setattr__(self, "leave", threading.Event())

    def choose(self, *args):
        self.entered.set()
        assert self.leave.wait(20)
        return super().choose(*args)


class Counter:
    def __init__(self):
        self._under_way = {}
        self.value = 0

    @exclusive
    def add(self):
        value = self.value
        time.sleep(0.0005)  # lets the other threads try
        self.value = value + 1

    @exclusive
    def fail(self, error):
        raise error


def test_of_many_threads_one_is_inside():
    counter, tries, refused, together = Counter(), 100, [], threading.Barrier(8)

    def work():
        count = 0
        together.wait()
        for _ in range(tries):
            try:
                counter.add()
            except ConcurrentUseError:
                count += 1
        refused.append(count)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(daemon=True, target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert counter.value + sum(refused) == 8 * tries, "an update was lost: two were inside"
    assert sum(refused) > 0 and counter.value > 0
    counter.add()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_the_token_comes_back_after_an_exception(error):
    counter = Counter()
    with pytest.raises(error):
        counter.fail(error())
    assert counter._under_way == {}
    counter.add()


def test_an_interrupt_at_any_point_leaves_no_token_behind():
    """A timer's signal stands for Ctrl-C; it lands wherever it lands, thousands of times."""

    class Interrupt(BaseException):
        pass

    def interrupt(*_):
        raise Interrupt

    counter, interrupts = Counter(), 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupts < 10_000:
            try:
                signal.setitimer(signal.ITIMER_REAL, 5e-6)
                while True:
                    counter.add()
            except Interrupt:
                interrupts += 1
                assert counter._under_way == {}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "call",
    [
        lambda r, d: r.decide(Task("second")),
        lambda r, d: r.observe(d.id, Outcome.completed(1.0)),
        lambda r, d: r.observe_all(d.id, {"a": 0.5, "b": 0.5}),
        lambda r, d: r.add_agent("c"),
        lambda r, d: r.remove_agent("a"),
        lambda r, d: r.to_json(),
    ],
    ids=["decide", "observe", "observe_all", "add_agent", "remove_agent", "to_json"],
)
def test_a_call_during_another_is_refused_and_changes_nothing(call, request):
    gate = Gate()
    gate.leave.set()
    router = Orchestrator(["a", "b"], gate)
    first = router.decide(Task("first"))
    before = router.fingerprint()
    gate.entered.clear(), gate.leave.clear()
    made = []
    thread = threading.Thread(daemon=True, target=lambda: made.append(router.decide(Task("slow"))))
    thread.start()
    try:
        assert gate.entered.wait(20)
        with pytest.raises(
            ConcurrentUseError, match=f"Orchestrator.{request.node.callspec.id}: .*bot_orch.Router.*lock"
        ):
            call(router, first)
        assert router.fingerprint() == before
    finally:
        gate.leave.set()
        thread.join()
    assert made[0].key.counter == 1 and router.pending == (first.id, made[0].id)
    call(router, first)  # now it may


def test_the_error_is_ours_and_a_runtime_error():
    assert issubclass(ConcurrentUseError, BotOrchError) and issubclass(ConcurrentUseError, RuntimeError)


def test_a_refused_value_does_not_block_what_follows():
    router = Orchestrator(["a"])
    decision = router.decide(Task())
    for bad, error in (
        (lambda: router.decide(Task(), eligible=[]), InvalidInputError),
        (lambda: router.observe("nonsense", Outcome.completed(1.0)), UnknownDecisionError),
        (lambda: router.observe_all(decision.id, {}), InvalidInputError),
        (lambda: router.add_agent("a"), InvalidInputError),
        (lambda: router.remove_agent("a"), InvalidInputError),
    ):
        with pytest.raises(error):
            bad()
    router.observe(decision.id, Outcome.completed(1.0))
