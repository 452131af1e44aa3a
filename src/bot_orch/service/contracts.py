"""What others see of the start and the settings of a runtime, and the queue of people that it expects."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from bot_orch.agents.kinds.human import HumanQueue
from bot_orch.errors import BotOrchError

__all__ = ["Reloaded", "StartCancelledError", "TicketQueue"]


class Reloaded(NamedTuple):
    """Settings that were changed in a running service, and those that only a restart changes."""

    changed: list[str]
    after_restart: list[str]


class StartCancelledError(BotOrchError):
    """The service was stopped before it had folded its log."""


class TicketQueue(HumanQueue, Protocol):
    """The queue of people, as the runtime needs it."""

    def adopt(self, prefix: str) -> list[tuple[str, str, float]]:
        """Tickets left by an earlier process whose request ids begin so: (ticket, request id, seconds left)."""
        ...
