"""The card of savings against the baseline, estimated from the newest events."""

from __future__ import annotations

import asyncio

from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.state import CapturedState
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.rounds import LoggedRounds, collect
from bot_orch.evaluation.savings import ServedRequests, compare, observed, served_requests
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.pages import Safe, html

_NEWEST = 20_000  # events that are read; about a quarter of a millisecond for each decision
_FRESH_US = 60_000_000
_CARD = (
    '<section class="card wide"><h2>Savings <small class="muted">{what}; of the newest events, with 95 % intervals'
    "</small></h2><p>{text}</p></section>"
)


class SavingsCard:
    """Estimates savings when somebody looks, at most once a minute."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._card, self._made_us = Safe(""), -_FRESH_US

    async def part(self) -> Safe:
        """Savings; empty without a baseline."""
        baseline, now_us = self._runtime.baseline, self._runtime.writer.now_us()
        if baseline is not None and now_us - self._made_us >= _FRESH_US:
            self._made_us = now_us
            captured = self._runtime.ledger.router.capture()
            self._card = await asyncio.to_thread(self._estimated, baseline, captured)
        return self._card

    def _estimated(self, baseline: str, captured: CapturedState) -> Safe:
        router = Orchestrator.from_capture(captured)
        document = Orchestrator.from_settings(router.settings, router.members).to_json()
        try:
            rounds = collect(self._runtime.writer.log, newest=_NEWEST, settings=document)
        except InvalidInputError:  # no decision yet
            return _nothing(baseline)
        return _compared(rounds, served_requests(rounds), baseline)


def _nothing(baseline: str) -> Safe:
    return html(_CARD, what=f"against {baseline}", text="Nothing to compare yet.")


def _compared(rounds: LoggedRounds, requests: ServedRequests, baseline: str) -> Safe:
    paired = observed(rounds)
    if paired is None and baseline not in requests.agents:
        return _nothing(baseline)
    found = paired or compare(requests, baseline)
    what = f"against {baseline}" if paired is None else "of the router, had it served"
    return html(_CARD, what=what, text=str(found).replace("+-", "±"))
