"""Cards that are estimated from the newest events: savings against the baseline, and kinds of prompts."""

from __future__ import annotations

import asyncio

from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.state import CapturedState
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.rounds import LoggedRounds, collect
from bot_orch.evaluation.savings import ServedRequests, compare, observed, served_requests
from bot_orch.service.dashboard.prompts import prompt_kinds, prompts_part
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.pages import Safe, html

_NEWEST = 20_000  # events that are read; about a quarter of a millisecond for each decision
_FRESH_US = 60_000_000
_CARD = (
    '<section class="card wide"><h2>Savings <small class="muted">{what}; of the newest events, with 95 % intervals'
    "</small></h2><p>{text}</p></section>"
)


class SavingsCards:
    """Estimates savings and reads kinds of prompts when somebody looks, at most once a minute."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._cards, self._made_us = (Safe(""), Safe("")), -_FRESH_US

    async def parts(self) -> tuple[Safe, Safe]:
        """Savings, empty without a baseline, and kinds of prompts, empty before any are found."""
        now_us = self._runtime.writer.now_us()
        if now_us - self._made_us >= _FRESH_US:
            self._made_us = now_us
            captured = self._runtime.ledger.router.capture()
            self._cards = await asyncio.to_thread(self._estimated, self._runtime.baseline, captured)
        return self._cards

    def _estimated(self, baseline: str | None, captured: CapturedState) -> tuple[Safe, Safe]:
        router = Orchestrator.from_capture(captured)
        document = Orchestrator.from_settings(router.settings, router.members).to_json()
        try:
            rounds = collect(self._runtime.writer.log, newest=_NEWEST, settings=document)
        except InvalidInputError:  # no decision yet
            return _nothing(baseline), Safe("")
        requests = served_requests(rounds)
        kinds = prompt_kinds(rounds, requests, router=router, baseline=baseline)
        return _compared(rounds, requests, baseline), prompts_part(kinds, baseline)


def _nothing(baseline: str | None) -> Safe:
    return html(_CARD, what=f"against {baseline}", text="Nothing to compare yet.") if baseline else Safe("")


def _compared(rounds: LoggedRounds, requests: ServedRequests, baseline: str | None) -> Safe:
    if baseline is None:
        return Safe("")
    paired = observed(rounds)
    if paired is None and baseline not in requests.agents:
        return _nothing(baseline)
    found = paired or compare(requests, baseline)
    what = f"against {baseline}" if paired is None else "of the router, had it served"
    return html(_CARD, what=what, text=str(found).replace("+-", "±"))
