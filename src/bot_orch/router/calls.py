"""The result of a routed call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bot_orch.types import Decision, Outcome

__all__ = ["Call"]


@dataclass(frozen=True, slots=True)
class Call:
    """Result of one routed call.

    ``outcome`` is the observed outcome; ``None`` if the answer was not judged: call ``observe(decision.id, ...)``.
    ``error`` is the exception of the agent's function, or a ``TimeoutError``; it has been observed as an outcome.
    ``earlier`` are the attempts before this one, if several were allowed.
    """

    decision: Decision
    elapsed_s: float
    answer: Any = None
    outcome: Outcome | None = None
    error: Exception | None = None
    earlier: tuple[Call, ...] = ()

    def result(self) -> Any:
        """Return the answer or raise the error, like ``Future.result``."""
        if self.error is not None:
            raise self.error
        return self.answer
