"""Alarms for webhooks, looked for once a second.

Drift, load that diverts calls, open circuits, exhausted budgets, biased judges, a guarantee whose credit is used up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bot_orch.core.events import DecisionMade, Event
from bot_orch.core.guarantee import Certificate
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.service.config import BudgetConfig
from bot_orch.service.operations.webhooks import Webhooks
from bot_orch.service.runtime import Runtime

Alarm = Callable[..., None]
_LEVELS = (0.8, 1.0)
_BIAS = 0.1
_CREDIT = 0.1  # share of the credit that has to be left before its end is reported
_CALM_US = 60_000_000  # without a diverted call, before load is reported again
_LOOK_S = 1.0


def start_alarms(runtime: Runtime, *, look_s: float = _LOOK_S, pause_s: float = 1.0) -> None:
    """Watch the service in the background until it stops; do nothing without webhooks.

    ``look_s`` is the time between two looks, ``pause_s`` that before the first retry of a delivery.
    """
    if not runtime.config.webhooks:
        return
    hooks = Webhooks(runtime.config.webhooks, runtime.count_webhook, pause_s=pause_s)
    look = _Lookout(runtime, Watching(hooks.alarm))
    runtime.writer.staged.append(look.note)
    look.now()
    runtime.background.start("webhooks", hooks.run())
    runtime.background.start("alarms", look.forever(look_s))


class _Lookout:
    def __init__(self, runtime: Runtime, watching: Watching) -> None:
        self._runtime, self._watching = runtime, watching
        self._last: DecisionMade | None = None

    def note(self, _: int, event: Event) -> None:
        """Remember the last decision, whose terms have the biases of judges."""
        if isinstance(event, DecisionMade):
            self._last = event

    async def forever(self, look_s: float) -> None:
        while True:
            await asyncio.sleep(look_s)
            if self._runtime.ready:
                self.now()

    def now(self) -> None:
        runtime, watching, last = self._runtime, self._watching, self._last
        now_us, ledger, budget = runtime.writer.now_us(), runtime.ledger, runtime.config.router.budget
        watching.circuits(now_us, {name: str(guard.breaker.state) for name, guard in runtime.guards.items()})
        watching.load(now_us, runtime.metrics.counted("bot_orch_diverted_total", "agent"))
        watching.drifts(now_us, ledger.router)
        watching.models(now_us, ledger.rollout.replaced, ledger.rollout.models)
        watching.guarantee(now_us, ledger.router.certificate())
        watching.budget(now_us, budget, ledger.spending.recent(now_us, budget.window_s))
        if not runtime.peers or next(iter(runtime.peers.values())) is runtime:  # tokens are for all routers
            watching.tokens(now_us, runtime.usage.spent(now_us))
        if last is not None and runtime.config.audit is not None and "bias" in last.columns():
            watching.audits(now_us, dict(zip(last.agents, last.column("bias").tolist(), strict=True)))


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
        self._replaced: dict[str, int] | None = None
        self._diverted: dict[str, tuple[float, int]] = {}  # calls so far, and when the last was seen
        self._credit_left, self._enough = False, 1.0 - _CREDIT

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

    def drifts(self, now_us: int, router: Orchestrator) -> None:
        """Report new drift alarms, given their numbers; alarms that exist at the first call are not reported."""
        counts = {**router.drift_alarms(), "": router.task_drift_alarms()}
        before, self._drifts = self._drifts, counts
        for agent, count in counts.items():
            if before is not None and count > before.get(agent, 0):
                what = {"agent": agent} if agent else {"tasks": True}
                self._alarm("drift", now_us, alarms=count, **what)

    def guarantee(self, now_us: int, found: Certificate | None) -> None:
        """Report that a guarantee gives traffic back to the baseline, all of it or that of agents that lose too much.

        Once, until a tenth of the credit is left, and a tenth more than at the report: a policy that wants to lose more
        than is promised is always at the end of its credit, which is no news.
        """
        if found is None:
            return
        back = found.held_back
        if self._credit_left and (back or not found.serves_others):
            self._credit_left, self._enough = False, min(found.loss_bound / found.credit - _CREDIT, 1.0 - _CREDIT)
            bound, credit = round(found.loss_bound, 3), round(found.credit, 3)
            more = {"agents": list(back)} if found.serves_others else {}
            self._alarm("guarantee", now_us, loss_bound=bound, credit=credit, rounds=found.rounds, **more)
        elif found.serves_others and not back and found.loss_bound <= self._enough * found.credit:
            self._credit_left = True

    def models(self, now_us: int, replaced: Mapping[str, int], names: Mapping[str, list[str]]) -> None:
        """Report agents that another model serves, given the times; those at the first call are not reported."""
        before, self._replaced = self._replaced, dict(replaced)
        for agent, since_us in replaced.items():
            if before is not None and since_us != before.get(agent):
                self._alarm("model", now_us, agent=agent, model=names.get(agent, [""])[-1])

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
