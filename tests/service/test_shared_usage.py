"""Limits over several processes: what is used at one counts at all, once, also after a router has moved."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot_orch import Orchestrator, Task
from bot_orch.core.events import AttemptEnded, TaskRecord, record_decision
from bot_orch.log.events import encode_event
from bot_orch.log.log import Row
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.windows import SlidingSum
from bot_orch.service.cluster.sharing import MOST_BYTES, UsageSharing, _messages
from bot_orch.service.config import TokenConfig, TokenLimitsConfig
from bot_orch.service.operations.usage import SharedUse, TokenUsage
from bot_orch.service.problems import Problem

LIMITS = TokenLimitsConfig(requests_per_minute=10, usd=0.5, window_s=3600)
ID = "018bcfe5-6800-707b-8000-000000000000"
TOKEN = TokenConfig(name="app", scopes=("decide",), env="A", limits=LIMITS)


class Wire:
    """Between the processes of a test; deaf if nothing is to be heard."""

    def __init__(self, others, *, deaf=False):
        self.on_message, self._others, self._deaf = None, others, deaf
        others.append(self)

    async def notify(self, messages):
        for other in self._others:
            if other is not self and other.on_message is not None and not other._deaf:
                for each in messages:
                    other.on_message(each)


def process(routers=()):
    usage = TokenUsage(lambda *_: None)
    usage.track([TOKEN])
    logs = {name: MemoryLog() for name in routers}
    return usage, logs, {name: usage.recall(name, log, 0) for name, log in logs.items()}


def admitted(usage, router, number, now_us=1_000_000):
    good = 0
    for _ in range(number):
        try:
            usage.admit("app", LIMITS, now_us, router=router)
            good += 1
        except Problem as problem:
            if problem.status != 429 or int(problem.headers["retry-after"]) > 61:
                raise
    return good


async def _alternately(*, deaf):
    wires = []
    processes = [process([name])[0] for name in ("one", "two", "three")]
    shared = [UsageSharing(usage, Wire(wires, deaf=deaf), lambda: 1_000_000) for usage in processes]
    for each in shared:
        each.start()
    total = 0
    for _ in range(10):
        for usage, name in zip(processes, ("one", "two", "three"), strict=True):
            total += admitted(usage, name, 1)
            await asyncio.sleep(0.06)  # longer than changes wait to be told
    for each in shared:
        await each.stop()
    return total


def test_a_quota_is_shared():
    assert asyncio.run(_alternately(deaf=False)) == 10


def test_control_without_messages_each_process_has_the_quota_for_itself():
    assert asyncio.run(_alternately(deaf=True)) == 30


def test_a_process_that_joins_learns_what_was_used_before():
    async def run():
        wires = []
        old, new = process(["one"])[0], process(["two"])[0]
        first = UsageSharing(old, Wire(wires), lambda: 1_000_000)
        first.start()
        assert admitted(old, "one", 10) == 10
        second = UsageSharing(new, Wire(wires), lambda: 1_000_000)
        second.start()
        for _ in range(100):
            await asyncio.sleep(0.02)
            if admitted(new, "two", 0) or (new.spent(1_000_000)[0][1] >= 0 and not admitted(new, "two", 1)):
                break
        used = admitted(new, "two", 5)
        await first.stop()
        await second.stop()
        return used

    assert asyncio.run(run()) == 0


def test_a_router_that_moves_counts_once():
    one, logs, used = process(["moving"])
    made = record_decision(Orchestrator(["a"], seed=1).decide(Task("t"), decision_id=ID), TaskRecord(), token="app")  # noqa: S106
    paid = AttemptEnded(ID, "", "a", 1, "completed", 1.0, cost_usd=0.25)
    log = logs["moving"]
    for seq, event in enumerate((made, paid), 1):
        row = Row(seq, seq, event.kind, ID, encode_event(event))
        log.append([row])
        log.commit()
        used["moving"].follow(row)
    other, _, _ = process()
    other.merge(one.news(2, everything=True))
    assert [each[1] for each in (*one.spent(2), *other.spent(2))] == [0.25, 0.25]
    one.forget("moving", log)
    assert one.news(2, everything=True) == [], "who does not serve a router tells nothing of it"
    other.recall("moving", log, 2)
    one.merge(other.news(2, everything=True))
    assert [each[1] for each in (*one.spent(2), *other.spent(2))] == [0.25, 0.25]
    one.recall("moving", log, 2)
    one.merge(other.news(2, everything=True))
    assert one.spent(2)[0][1] == 0.25, "it came back"


def test_messages_fit_and_hold_everything():
    use = {"token": "app", "requests": [(10**15, 1.5)] * 8, "tokens": []}
    told = [SharedUse(router=f"router-{i}", usd=[(i, 0.25)], **use) for i in range(100)]
    sent = [*_messages(told)]
    assert max(map(len, sent)) <= MOST_BYTES
    assert [each[0] for message in sent for each in msgspec.json.decode(message)[1]] == [each.router for each in told]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**9), st.floats(0.001, 10)), min_size=1, max_size=50))
def test_what_is_told_is_never_less(amounts):
    ours, theirs = SlidingSum(3600, 60), SlidingSum(3600, 60)
    for time_us, amount in sorted(amounts):
        ours.add(time_us, amount)
    theirs.replace(ours.summary(10**9))
    for later in range(10**9, 5 * 10**9, 10**8):
        assert theirs.within(later) >= ours.within(later) - 1e-6
    assert len(theirs.grains(10**9)) <= 8
    assert theirs.within(10**9) == pytest.approx(ours.within(10**9))
