"""Broken variants of the service that the checks must catch."""

import asyncio
import dataclasses
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest

from bot_orch import Orchestrator, Task
from bot_orch.clock import ManualClock
from bot_orch.core.engine import ENGINE
from bot_orch.core.events import (
    Configured,
    DecisionMade,
    EventMismatchError,
    FeedbackGiven,
    TaskRecord,
    record_decision,
)
from bot_orch.log.events import encode_event
from bot_orch.log.ids import time_ordered_id
from bot_orch.log.ledger import Ledger, fold
from bot_orch.log.log import Row
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.verification import replay
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.writer import Group, Writer

sys.path.insert(0, str(Path(__file__).parents[2] / "service"))


class Failing(MemoryLog):
    def commit(self):
        if len(self._open) and self._open[0].seq > 1:
            raise sqlite3.OperationalError("disk I/O error")
        super().commit()

    def probe(self):
        raise sqlite3.OperationalError("disk I/O error")


async def false_acknowledgements(writer_type):
    """Events acknowledged although the log does not hold them."""
    log = Failing()
    writer = writer_type(log, ManualClock())
    writer.start()
    router = Orchestrator(["a", "b"])
    await writer.stage(writer.stamp(), Configured(router.to_json(), ENGINE), "").durable()
    false = 0
    for number in range(5):
        try:
            made = writer.ledger.router.prepare(Task(), decision_id=f"d{number}")
            event = record_decision(made, TaskRecord())
            await writer.stage(writer.stamp(), event, event.id, made=made).durable()
        except StorageError:
            continue
        await asyncio.sleep(0)
        false += not log.about(event.id)
    writer._closing = True
    writer._wake.set()
    writer._task.cancel()
    writer._pool.shutdown()
    return false


class EagerGroup(Group):
    async def durable(self):
        """Acknowledge before the commit."""


class EagerWriter(Writer):
    def _open(self):
        if not self._line:
            self._line.append(EagerGroup())
        return self._line[-1]


def test_acknowledging_before_the_commit_is_caught():
    assert asyncio.run(false_acknowledgements(Writer)) == 0
    assert asyncio.run(false_acknowledgements(EagerWriter)) > 0


def written(ledger_type, rounds=30):
    """A log written by a live ledger of this type."""
    log, ledger, clock = MemoryLog(), ledger_type(), ManualClock()

    def put(event, ref, made=None):
        clock.advance(1.0)
        ledger.apply(ledger.seq + 1, clock.now_us(), event, made)
        log.append([Row(ledger.seq, clock.now_us(), event.kind, ref, encode_event(event))])

    put(Configured(Orchestrator(["a", "b", "c"], "bot", seed=1).to_json(), ENGINE), "")
    for number in range(rounds):
        made = ledger.router.prepare(Task(str(number)), decision_id=time_ordered_id(clock.now_us()))
        event = ledger_type.record(made, TaskRecord(str(number)))
        put(event, event.id, made)
        if number % 4:
            put(FeedbackGiven(f"f{number}", event.id, "learned", reward=(number % 3) / 2), event.id)
    log.commit()
    return log, ledger


class Honest(Ledger):
    record = staticmethod(record_decision)


class CountsTwice(Honest):
    """Learns every report twice, as a retry without deduplication would."""

    def apply(self, seq, time_us, event, made=None):
        super().apply(seq, time_us, event, made)
        if isinstance(event, FeedbackGiven):
            again = self.router.decide(Task())
            self.router.observe(again.id, event.outcome())


class ReadsTheClock(Honest):
    """Lets the wall clock into the state."""

    def apply(self, seq, time_us, event, made=None):
        super().apply(seq, time_us, event, made)
        if isinstance(event, DecisionMade):
            self.pending[event.id] = time_us + 1


class WrongPropensities(Honest):
    """Writes other probabilities down than those it drew from."""

    @staticmethod
    def record(made, task):
        event = record_decision(made, task)
        return dataclasses.replace(event, numbers=(np.full(3, 1 / 3).tobytes(), *event.numbers[1:]))


def test_an_honest_ledger_replays():
    log, ledger = written(Honest)
    assert replay(log).ok and replay(log).fingerprint == ledger.fingerprint() == fold(log).fingerprint()


@pytest.mark.parametrize("broken", [CountsTwice, ReadsTheClock, WrongPropensities])
def test_a_broken_ledger_is_caught_by_replay(broken):
    log, ledger = written(broken)
    try:
        found = replay(log)
        assert not found.ok or found.fingerprint != ledger.fingerprint()
    except EventMismatchError:
        pass
