"""Detects events for webhooks: drift, load that diverts calls, open circuits, exhausted budgets, biased judges,
guarantees whose credit is used up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from bot_orch.core.guarantee import Certificate
from bot_orch.service.config import BudgetConfig

__all__ = ["Alarm", "Watching"]

Alarm = Callable[..., None]
_LEVELS = (0.8, 1.0)
_BIAS = 0.1
_CALM_US = 60_000_000  # without a diverted call, before load is reported again
_CREDIT = 0.1  # share of the credit that has to be left before its end is reported


class _Watched(Protocol):
    """The part of the state that is watched."""

    def drift_alarms(self) -> dict[str, int]:
        """Drift alarms by agent."""
        ...

    def task_drift_alarms(self) -> int:
        """Drift alarms of the tasks' references."""
        ...


class Watching:
    """Compares the state with that at the last check, and raises alarms for changes.

    Parameters
    ----------
    alarm
        Called with the name of an event, a time and data.
    """

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._circuits: dict[str, str] = {}
        self._drifts: dict[str, int] | None = None
        self._levels: dict[str, float] = {}
        self._biased: set[str] = set()
        self._diverted: dict[str, tuple[float, int]] = {}  # calls so far, and when the last was seen
        self._credit_left = False

    def load(self, now_us: int, diverted: Mapping[str, float]) -> None:
        """Report diverted calls, given their total number, once until a minute passes without one."""
        for agent, count in diverted.items():
            before, last_us = self._diverted.get(agent, (0.0, -_CALM_US))
            if count <= before:
                continue
            if now_us - last_us >= _CALM_US:
                self._alarm("load", now_us, agent=agent, diverted=round(count - before))
            self._diverted[agent] = (count, now_us)

    def circuits(self, now_us: int, states: Mapping[str, str]) -> None:
        """Report changes of circuit breakers, given their states; half open counts as open."""
        for agent, state in states.items():
            current = "closed" if state == "closed" else "open"
            if current != self._circuits.get(agent, "closed"):
                self._alarm(f"circuit_{current}", now_us, agent=agent)
            self._circuits[agent] = current

    def drifts(self, now_us: int, router: _Watched) -> None:
        """Report new drift alarms, given their numbers; alarms that exist at the first call are not reported."""
        counts = {**router.drift_alarms(), "": router.task_drift_alarms()}
        before, self._drifts = self._drifts, counts
        for agent, count in counts.items():
            if before is not None and count > before.get(agent, 0):
                what = {"agent": agent} if agent else {"tasks": True}
                self._alarm("drift", now_us, alarms=count, **what)

    def guarantee(self, now_us: int, found: Certificate | None) -> None:
        """Report that a guarantee's credit is used up, so that all traffic is the baseline's again.

        Once, until a tenth of the credit is left: a policy that wants to lose more than is promised is always at the
        end of its credit, which is no news.
        """
        if found is None:
            return
        if self._credit_left and not found.serves_others:
            self._credit_left = False
            bound, credit = round(found.loss_bound, 3), round(found.credit, 3)
            self._alarm("guarantee", now_us, loss_bound=bound, credit=credit, rounds=found.rounds)
        elif found.serves_others and found.loss_bound <= (1.0 - _CREDIT) * found.credit:
            self._credit_left = True

    def budget(self, now_us: int, settings: BudgetConfig, spent_usd: float) -> None:
        """The budget of the router."""
        if settings.window_usd is not None:
            self._level(now_us, "router", used=spent_usd, most=settings.window_usd)

    def tokens(self, now_us: int, spent: Iterable[tuple[str, float, float]]) -> None:
        """Dollars of tokens with a limit."""
        for name, used, most in spent:
            self._level(now_us, f"token {name}", used=used, most=most)

    def audits(self, now_us: int, biases: Mapping[str, float]) -> None:
        """Report bias corrections of agents' rewards by audits, once as long as they last."""
        for agent, bias in biases.items():
            if abs(bias) >= _BIAS and agent not in self._biased:
                self._alarm("audit", now_us, agent=agent, bias=round(bias, 4))
            (self._biased.add if abs(bias) >= _BIAS else self._biased.discard)(agent)

    def _level(self, now_us: int, name: str, *, used: float, most: float) -> None:
        """Report that a level is reached, once until the usage falls below the lowest level."""
        share = used / most if most > 0 else 1.0
        level = max((each for each in _LEVELS if share >= each), default=0.0)
        if level > self._levels.get(name, 0.0):
            data: dict[str, Any] = {"spent_usd": round(used, 6), "limit_usd": most, "share": round(share, 4)}
            self._alarm("budget", now_us, of=name, **data)
        if level == 0.0 or level > self._levels.get(name, 0.0):
            self._levels[name] = level
