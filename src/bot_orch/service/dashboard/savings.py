"""The card of savings: dollars, quality and seconds against the baseline, in words."""

from __future__ import annotations

import asyncio

from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.savings import compare, observed, served_requests
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.pages import Safe, html

__all__ = ["SavingsCard"]

_NEWEST = 50_000  # events that are read
_FRESH_US = 60_000_000
_CARD = (
    '<section class="card wide"><h2>Savings <small class="muted">{what}; of the newest events, with 95 % intervals'
    "</small></h2><p>{text}</p></section>"
)


class SavingsCard:
    """Compares the router with its baseline when somebody looks, at most once a minute."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._card, self._made_us = Safe(""), -_FRESH_US

    async def part(self) -> Safe:
        """The card; empty without a baseline."""
        baseline, now_us = self._runtime.baseline, self._runtime.writer.now_us()
        if baseline is None:
            return Safe("")
        if now_us - self._made_us >= _FRESH_US:
            self._made_us = now_us
            router = self._runtime.ledger.router
            document = Orchestrator.from_settings(router.settings, router.members).to_json()
            self._card = await asyncio.to_thread(self._compared, baseline, document)
        return self._card

    def _compared(self, baseline: str, document: str) -> Safe:
        try:
            rounds = collect(self._runtime.writer.log, newest=_NEWEST, settings=document)
            paired = observed(rounds)
            found = paired or compare(served_requests(rounds), baseline)
        except InvalidInputError:  # no decision yet, or none that the baseline could have had
            return html(_CARD, what=f"against {baseline}", text="Nothing to compare yet.")
        what = f"against {baseline}" if paired is None else "of the router, had it served"
        return html(_CARD, what=what, text=str(found).replace("+-", "±"))
