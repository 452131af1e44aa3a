"""What others see of an agent: a snapshot, and a log line for each attempt that failed."""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, dataclass

from bot_orch.agents.base import Attempt
from bot_orch.agents.breaker import BreakerView
from bot_orch.agents.endings import Ending

__all__ = ["GuardView", "log_failure"]

_log = logging.getLogger("bot_orch.agents")
_EXPECTED = frozenset({Ending.COMPLETED, Ending.CANCELLED_BY_CALLER, Ending.SHUTDOWN})


@dataclass(frozen=True, slots=True)
class GuardView:
    """Snapshot of one agent. ``reason`` says why it takes no call, ``retry_in_s`` for how long (0: not known)."""

    agent: str
    breaker: BreakerView
    in_flight: int
    _: KW_ONLY
    concurrency: int
    waiting: int
    held_s: float
    available: bool
    reason: str
    retry_in_s: float


def log_failure(attempt: Attempt) -> None:
    """Log an attempt that the agent, or the way to it, has failed: which and how, nothing of request and answer."""
    if attempt.ending in _EXPECTED or not attempt.ending.meaning.attempted:
        return
    fields = {
        "agent": attempt.agent,
        "decision": attempt.request_id,
        "attempt": attempt.number,
        "ending": str(attempt.ending),
        "status": attempt.status,
        "elapsed_s": round(attempt.elapsed_s, 3),
    }
    _log.warning("attempt failed", extra={"fields": fields})
