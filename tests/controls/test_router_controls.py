"""Broken variants of what threads rely on, each caught by the check that guards it."""

import sys
import threading
from dataclasses import replace

from bot_orch import Orchestrator, Router, Task
from bot_orch.policies.ucb1 import UCB1


class Meeting(UCB1):
    """Two threads meet inside ``choose``: both have read the counter, neither has moved it on."""

    def __init__(self, barrier):
        super().__init__()
        object.__setattr__(self, "barrier", barrier)

    def choose(self, *args):
        self.barrier.wait()
        return super().choose(*args)


class Unguarded(Orchestrator):
    """As it was before: nothing notices the second thread, and nothing asks whose turn it is."""

    decide = Orchestrator.decide.__wrapped__

    def _commit(self, decision, task):
        super()._commit(replace(decision, key=replace(decision.key, counter=self._state.rounds)), task)


def ids_of_two_threads(router):
    found = []
    threads = [threading.Thread(daemon=True, target=lambda: found.append(router.decide(Task()).id)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_without_the_notice_two_threads_get_one_id():
    router = Unguarded(["a", "b"], Meeting(threading.Barrier(2, timeout=20)))
    first, second = ids_of_two_threads(router)
    assert first == second


def test_a_router_without_its_lock_is_noticed():
    class NoLock:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    router = Router(["a", "b"])
    router._own_lock = NoLock()
    errors = []

    def work():
        try:
            for _ in range(20_000):
                router.decide(Task())
        except Exception as error:
            errors.append(type(error).__name__)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(daemon=True, target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert "ConcurrentUseError" in errors
