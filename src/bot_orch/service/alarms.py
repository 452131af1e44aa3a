"""Checks the running service once a second and sends changes to webhooks."""

from __future__ import annotations

import asyncio

from bot_orch.log.events import DecisionMade, Event
from bot_orch.service.operations.watching import Watching
from bot_orch.service.operations.webhooks import Webhooks
from bot_orch.service.runtime import Runtime

__all__ = ["start_alarms"]

_LOOK_S = 1.0


def start_alarms(runtime: Runtime, *, look_s: float = _LOOK_S, pause_s: float = 1.0) -> None:
    """Watch the service in the background until it stops; do nothing without webhooks.

    ``look_s`` is the time between two looks, ``pause_s`` that before the first retry of a delivery.
    """
    if not runtime.config.webhooks:
        return
    hooks = Webhooks(runtime.config.webhooks, runtime.count_webhook, pause_s=pause_s)
    look = _Lookout(runtime, Watching(hooks.alarm))
    runtime.writer.staged.subscribe(look.note)
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
        watching.guarantee(now_us, ledger.router.certificate())
        watching.budget(now_us, budget, ledger.spending.recent(now_us, budget.window_s))
        if not runtime.peers or next(iter(runtime.peers.values())) is runtime:  # tokens are for all routers
            watching.tokens(now_us, runtime.usage.spent(now_us))
        if last is not None and runtime.config.audit is not None and "bias" in last.columns():
            watching.audits(now_us, dict(zip(last.agents, last.column("bias").tolist(), strict=True)))
