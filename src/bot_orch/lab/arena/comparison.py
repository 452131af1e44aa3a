"""What a verdict consists of: paired differences and what they are about."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

__all__ = ["ArenaVerdict", "GainInterval", "WarmStartGain"]


@dataclass(frozen=True, slots=True)
class GainInterval:
    """Means per task of two policies, and their paired difference with an interval."""

    policy: float
    baseline: float
    difference: float
    _: KW_ONLY
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 where the interval excludes zero, else 0."""
        return int(self.low > 0.0) - int(self.high < 0.0)


@dataclass(frozen=True, slots=True)
class WarmStartGain:
    """The default router, taught one half of the tasks, on the other half, against the best single agent of the first.

    ``agent`` is that one, in most of the orders if they differ; ``differences`` are by metric.
    """

    taught: int
    played: int
    seeds: int
    _: KW_ONLY
    agent: str
    metric: str
    differences: dict[str, GainInterval]


@dataclass(frozen=True, slots=True)
class ArenaVerdict:
    """One data set in one order.

    Attributes
    ----------
    policy, baseline
        The best of ``compared`` policies by ``metric``, and what it is compared with (``agent`` if that is an agent).
    outcome
        ``better``, ``worse``, ``no difference``, ``cheaper`` (no difference in reward, fewer dollars), ``trade``
        (less reward for fewer dollars), ``within budget`` (which the baseline exceeds) or ``too few tasks``.
    differences
        By metric: ``reward``, and ``cost_usd`` and ``net`` where they are known.
    pays_from
        The round from which the running total of ``metric`` stays above the baseline's; None if it never does.
    best_single, mix
        Reward of the best single agent, and of the best fixed mix at the policy's own cost; both in hindsight.
    warm
        The same question for a user who holds the table; None where it was not asked (runtimes, budgets, fewer than 40
        tasks).
    policies
        The same comparison for every policy: differences by metric.
    """

    dataset: str
    order: str
    policy: str
    _: KW_ONLY
    baseline: str
    agent: str | None
    why: str
    metric: str
    compared: int
    outcome: str
    rounds: int
    seeds: int
    differences: dict[str, GainInterval]
    pays_from: int | None
    best_single: float
    mix: float | None
    net_weight: float | None
    budget_usd: float | None
    warm: WarmStartGain | None = None
    policies: dict[str, dict[str, GainInterval]] = field(default_factory=dict)
    text: str = ""
