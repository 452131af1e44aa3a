"""Agents on trial: the cap on their propensities now, and the notes from which a restart knows when it began."""

from __future__ import annotations

from collections.abc import Iterable

from bot_orch.log.ledger import Ledger
from bot_orch.service.config import AgentConfig

__all__ = ["caps_now"]


def caps_now(on_trial: Iterable[AgentConfig], ledger: Ledger, now_us: int) -> dict[str, float]:
    """The caps that are below one, by agent. A trial whose note is not in the log yet is at its beginning."""
    caps: dict[str, float] = {}
    for agent in on_trial:
        if agent.canary is None or agent.id not in ledger.router.agents:
            continue
        begun, begun_us = ledger.rollout.canaries.get(agent.id, (ledger.router.rounds, now_us))
        cap = agent.canary.cap(ledger.router.rounds - begun, max(0.0, (now_us - begun_us) / 1e6))
        if cap < 1.0:
            caps[agent.id] = cap
    return caps
