"""A small service that writes to a log without HTTP."""

from bot_orch import Task
from bot_orch.clock import ManualClock, ServiceTime
from bot_orch.core.engine import ENGINE
from bot_orch.core.events import Configured, FeedbackGiven, TaskRecord, record_decision, record_task
from bot_orch.log.events import encode_event
from bot_orch.log.ids import time_ordered_id
from bot_orch.log.ledger import Ledger
from bot_orch.log.log import Row


class Scribe:
    """Decides, observes and writes everything down."""

    def __init__(self, log, router):
        self.log, self.ledger = log, Ledger()
        self.clock = ManualClock()
        self._stamp = ServiceTime(self.clock)
        self.put(Configured(router.to_json(), engine=ENGINE), "")

    def put(self, event, ref, made=None, key=None, digest=None):
        time_us = self._stamp()
        self.ledger.apply(self.ledger.seq + 1, time_us, event, made)
        self.log.append([Row(self.ledger.seq, time_us, event.kind, ref, encode_event(event), key, digest)])

    def decide(self, task=None, eligible=None, by="policy"):
        task = task or Task()
        decision_id = time_ordered_id(self.clock.now_us() + self.ledger.router.rounds)
        made = self.ledger.router.prepare(task, eligible, decision_id=decision_id)
        record = record_task(task) if task.id or task.features or task.reference else TaskRecord()
        self.put(record_decision(made, record, eligible=eligible, by=by), decision_id, made)
        return decision_id, made

    def feedback(self, decision_id, reward, effect="learned"):
        self.put(FeedbackGiven(decision_id, decision_id, effect, reward=reward), decision_id)

    def put_report(self, decision_id, reward, key):
        """A report with an id of the client's own."""
        self.put(FeedbackGiven(key, decision_id, "learned", reward=reward), decision_id, key=key, digest=key.encode())
