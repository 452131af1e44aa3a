"""``/v1/ab``: the mean rewards of both arms of a test, and their difference with a 95 % interval."""

from __future__ import annotations

import asyncio
import math
from dataclasses import KW_ONLY, dataclass

from bot_orch.core.ab import SplitTest
from bot_orch.eventlog.events import Configured, DecisionMade, Event, FeedbackGiven
from bot_orch.policies.registry import policy_name
from bot_orch.service.runtime import Runtime

__all__ = ["ArmSums", "Comparison", "compare"]

_MOST_WAITING = 200_000
_Z = 1.959963984540054  # 95 %


@dataclass(slots=True)
class ArmSums:
    """Decisions of an arm, and the count, sum and sum of squares of their rewards."""

    decisions: int = 0
    rewards: int = 0
    _: KW_ONLY
    total: float = 0.0
    squares: float = 0.0

    @property
    def mean(self) -> float | None:
        """Mean reward."""
        return self.total / self.rewards if self.rewards else None

    @property
    def error(self) -> float:
        """Squared standard error of the mean."""
        n = self.rewards
        return max(0.0, self.squares - self.total**2 / n) / (n - 1) / n if n > 1 else math.inf


class Comparison:
    """What a log says about the arms of a test, read on from where it stopped."""

    def __init__(self, test: SplitTest) -> None:
        self.test, self.seq = test, 0
        self._reset()

    def _reset(self) -> None:
        self.arms = {"a": ArmSums(), "b": ArmSums()}
        self._waiting: dict[str, str] = {}

    def take(self, event: Event) -> None:
        """Count a decision or its reward; the first reward of a decision counts, as it does for the policies."""
        match event:
            case Configured(keep_learned=False):
                self._reset()  # the arms began anew
            case DecisionMade() if event.policy == policy_name(self.test) and event.by == "policy":
                arm = self.test.arm(event.counter + 1)
                self.arms[arm].decisions += 1
                self._waiting[event.id] = arm
                if len(self._waiting) > _MOST_WAITING:
                    del self._waiting[next(iter(self._waiting))]
            case FeedbackGiven() if event.reward is not None and event.effect in ("learned", "replaced"):
                found = self._waiting.pop(event.decision_id, None)
                if found is not None:
                    sums = self.arms[found]
                    sums.rewards += 1
                    sums.total += event.reward
                    sums.squares += event.reward**2

    def difference(self) -> tuple[float, float, float] | None:
        """Mean reward of b minus that of a, and the ends of its 95 % interval; None while one has no two rewards."""
        a, b = self.arms["a"], self.arms["b"]
        if a.mean is None or b.mean is None or math.isinf(a.error + b.error):
            return None
        found, half = b.mean - a.mean, _Z * math.sqrt(a.error + b.error)
        return found, found - half, found + half


async def compare(runtime: Runtime) -> Comparison | None:
    """The comparison up to the newest durable event; None if there is no test."""
    test = runtime.ledger.router.policy
    if not isinstance(test, SplitTest):
        runtime.comparison = None
        return None
    known = runtime.comparison
    if not isinstance(known, Comparison) or known.test != test:
        known = runtime.comparison = Comparison(test)
    await asyncio.to_thread(_read_on, known, runtime)
    return known


def _read_on(known: Comparison, runtime: Runtime) -> None:
    for row in runtime.writer.log.read(known.seq):
        if row.seq > known.seq:
            known.seq = row.seq
            known.take(row.event())
