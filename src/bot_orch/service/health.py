"""Active health checks: they open and close an agent's circuit breaker without waiting for requests of clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from bot_orch.agents.base import Attempt, CallFailure, CallReply, CallRequest
from bot_orch.agents.breaker import BreakerState
from bot_orch.agents.endings import Ending
from bot_orch.agents.guard import Guard
from bot_orch.agents.kinds.openai import OpenAIRunner
from bot_orch.service.config.settings import HealthConfig

__all__ = ["HealthCheck"]

_log = logging.getLogger("bot_orch.health")
_TEXT, _ANSWER_S = "ping", 5.0


class HealthCheck:
    """Periodic health check of one agent.

    A failure counts in the circuit breaker like one of a client's call. A success closes the circuit if a check has
    opened it; a tiny chat, which asks what clients ask, closes it in any case. A check of a ``path`` says less than a
    chat: it neither closes a circuit that calls have opened nor ends a row of failed calls.

    Parameters
    ----------
    guard, settings
        The agent, and how to check it.
    report
        Called with a check that has cost something: it counts in the budget.
    answer_s
        Seconds for an answer.
    """

    def __init__(
        self,
        guard: Guard,
        settings: HealthConfig,
        report: Callable[[Attempt], None],
        *,
        answer_s: float = _ANSWER_S,
    ) -> None:
        self._guard, self._settings, self._report, self._answer_s = guard, settings, report, answer_s
        self._opened = False
        self._number = 0

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(self._settings.every_s)
            await self.check()

    async def check(self) -> Ending:
        """Send one probe, and report its ending to the circuit breaker."""
        ending, breaker = await self._ask(), self._guard.breaker
        before = breaker.state
        if ending is Ending.COMPLETED:
            if before is not BreakerState.CLOSED and (self._opened or self._settings.path is None):
                breaker.reset()
                self._opened = False
            elif before is BreakerState.CLOSED and self._settings.path is None:
                breaker.settle(breaker.acquire(), ending)
        elif ending.meaning.trips:
            breaker.settle(breaker.acquire(), ending)
            self._opened = self._opened or (before is BreakerState.CLOSED and breaker.state is BreakerState.OPEN)
        if breaker.state is not before:
            fields = {"agent": self._guard.agent_id, "ending": str(ending), "circuit": str(breaker.state)}
            _log.warning("health check changed the circuit", extra={"fields": fields})
        return ending

    async def _ask(self) -> Ending:
        self._number += 1
        try:
            async with asyncio.timeout(self._answer_s):
                await self._once()
        except TimeoutError:
            return Ending.TIMEOUT_TOTAL
        except CallFailure as failure:
            return failure.ending
        except Exception:  # a program as an agent may raise anything
            return Ending.CRASHED
        return Ending.COMPLETED

    async def _once(self) -> None:
        runner, settings, loop = self._guard.runner, self._settings, asyncio.get_running_loop()
        if settings.path is not None and isinstance(runner, OpenAIRunner):
            await runner.probe(settings.path)
            return
        begun = loop.time()
        request = CallRequest(f"health-{self._guard.agent_id}-{self._number}", _TEXT, params={"max_tokens": 1})
        self._charge(request, await runner.call(request), loop.time() - begun)

    def _charge(self, request: CallRequest, reply: CallReply, elapsed_s: float) -> None:
        cost_usd = self._guard.price.cost(reply.usage)
        if cost_usd:
            self._report(
                Attempt(
                    self._guard.agent_id,
                    request.id,
                    1,
                    ending=Ending.COMPLETED,
                    elapsed_s=elapsed_s,
                    usage=reply.usage,
                    cost_usd=cost_usd,
                )
            )
