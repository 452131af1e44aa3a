"""``/v1/ab``: the mean rewards of both arms of a test, and their difference with a 95 % interval."""

from __future__ import annotations

import asyncio
import math
from dataclasses import KW_ONLY, dataclass

from scipy.special import stdtrit

from bot_orch.core.ab import SplitTest
from bot_orch.log.events import Configured, DecisionMade, Event, FeedbackGiven
from bot_orch.policies.registry import policy_name
from bot_orch.service.runtime import Runtime

__all__ = ["ArmSums", "Comparison", "compare"]

_MOST_WAITING = 200_000


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

    def cautious(self) -> tuple[float, float]:
        """Mean and squared standard error with two pseudo-rewards, 0 and 1 (Agresti and Caffo, 2000).

        Rewards are in [0, 1]. Without the two, an arm whose few rewards are all alike would look certain.
        """
        n, total, squares = self.rewards + 2, self.total + 1.0, self.squares + 1.0
        return total / n, max(0.0, squares - total**2 / n) / (n - 1) / n


class Comparison:
    """Statistics of the arms of a test, updated incrementally from the log."""

    def __init__(self, test: SplitTest) -> None:
        self.test, self.seq = test, 0
        self._reset()

    def _reset(self) -> None:
        self.arms = {"a": ArmSums(), "b": ArmSums()}
        self._waiting: dict[str, str] = {}

    def take(self, event: Event) -> None:
        """Count a decision or its first reward, which is the one the policies learn."""
        match event:
            case Configured(keep_learned=False):
                self._reset()  # the arms have restarted
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
        """Mean reward of b minus that of a, with a 95 % interval; None while an arm has fewer than two rewards.

        Welch's interval, about the difference of the cautious means.
        """
        a, b = self.arms["a"], self.arms["b"]
        if a.mean is None or b.mean is None or min(a.rewards, b.rewards) < 2:
            return None
        (mean_a, error_a), (mean_b, error_b) = a.cautious(), b.cautious()
        degrees = (error_a + error_b) ** 2 / (error_a**2 / (a.rewards + 1) + error_b**2 / (b.rewards + 1))
        half = float(stdtrit(degrees, 0.975)) * math.sqrt(error_a + error_b)
        return b.mean - a.mean, max(-1.0, mean_b - mean_a - half), min(1.0, mean_b - mean_a + half)


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
