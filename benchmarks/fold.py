"""Processor time of folding a log: the default policy, 10 features, 4 agents, half decisions, half outcomes.

The log is written by the service's own events into memory, then folded from its first event. The policy's own learning
is timed apart. With fewer events than a million the time is extrapolated: a fold is linear in them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from _harness import Bench

from bot_orch import Orchestrator, Task
from bot_orch.arrays import Arrays
from bot_orch.core.events import Configured, Event, FeedbackGiven, as_recorded, record_decision, record_task
from bot_orch.log import MemoryLog
from bot_orch.log.events import encode_event
from bot_orch.log.ledger import fold
from bot_orch.log.log import Row
from bot_orch.policies.base import Feedback, Policy
from bot_orch.policies.registry import make_policy
from bot_orch.types import Outcome

MILLION, FEATURES, AGENTS = 1_000_000, 10, 4


def events(policy: str, rounds: int) -> Iterator[Event]:
    """What a service would log: settings, then a decision and its outcome in turn."""
    router = Orchestrator([f"agent-{i}" for i in range(AGENTS)], policy, n_features=FEATURES)
    yield Configured(router.to_json())
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(AGENTS, FEATURES)) / FEATURES**0.5
    for number in range(rounds):
        x = rng.normal(size=FEATURES)
        task = as_recorded(Task(f"t-{number}", features=tuple(x.tolist())))
        decision = router.decide(task, decision_id=f"d-{number}")
        reward = float(rng.random() < 1.0 / (1.0 + np.exp(-weights[int(decision.agent[-1])] @ x)))
        router.observe(decision.id, Outcome.completed(reward=reward, elapsed_s=1.0))
        yield record_decision(decision, record_task(task))
        yield FeedbackGiven(f"f-{number}", f"d-{number}", "learned", reward=reward, elapsed_s=1.0)


def written(policy: str, n: int) -> MemoryLog:
    """A log of about ``n`` events."""
    log = MemoryLog()
    rows = [Row(seq, seq, event.kind, "", encode_event(event)) for seq, event in enumerate(events(policy, n // 2), 1)]
    log.append(rows)
    log.commit()
    return log


def timed_fold(log: MemoryLog, policy: str) -> tuple[float, float, int]:
    """Processor seconds of a fold, those of the policy's own update in it, and the number of events."""
    cls, own = type(make_policy(policy)), 0.0
    original = cls.update

    def timed(self: Policy, state: Arrays, feedback: Feedback) -> None:
        nonlocal own
        begun = time.process_time()
        original(self, state, feedback)
        own += time.process_time() - begun

    cls.update = timed  # type: ignore[method-assign]
    try:
        begun = time.process_time()
        ledger = fold(log)
        return time.process_time() - begun, own, ledger.seq
    finally:
        cls.update = original  # type: ignore[method-assign]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/fold.py --events 20000")
    parser.add_argument(
        "--events", type=int, default=100_000, help="events in the log; the time is scaled to a million"
    )
    parser.add_argument("--policy", default="auto", help="policy that the log was written with")
    parser.add_argument("--quick", action="store_true", help="few events")
    chosen = parser.parse_args()
    n = 4000 if chosen.quick else chosen.events
    fold(written(chosen.policy, 40))  # compiles
    log = written(chosen.policy, n)
    spent, own, seq = timed_fold(log, chosen.policy)
    scale = MILLION / seq
    bench = Bench("s")
    name = f"fold of 1 M events ({chosen.policy}, {FEATURES} features, {AGENTS} agents)"
    bench.row(f"{name}, processor time against a minute", spent * scale, 60.0, higher_is_better=False, need=1.0)
    bench.row(f"{name}, the policy's own learning apart", (spent - own) * scale, 60.0, higher_is_better=False)
    bench.finish()


if __name__ == "__main__":
    main()
