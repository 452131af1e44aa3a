"""Endings of attempts, and their meaning for learning and for the circuit breaker.

The two meanings are independent. For *learning*, an ending is censored (still running when observation stopped), a
failure (will never complete), or uninformative. For the *breaker*, an ending counts against the agent or not: a
caller's own mistake (4xx) or short deadline must not make an agent unavailable to others. Callers who gave up after the
agent was silent for longer than it usually is (:attr:`Ending.ABANDONED`) do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from types import MappingProxyType

from bot_orch.survival.causes import REASONS, Cause


class Ending(StrEnum):
    """How one attempt ended; the value appears in the log and in metrics."""

    COMPLETED = "completed"
    TIMEOUT_FIRST_BYTE = "timeout_first_byte"
    TIMEOUT_TOTAL = "timeout_total"
    TIMEOUT_IDLE = "timeout_idle"
    CANCELLED_BY_CALLER = "cancelled_by_caller"
    ABANDONED = "abandoned"
    CALLER_DEADLINE = "caller_deadline"
    SHUTDOWN = "shutdown"
    UNANSWERED = "unanswered"
    REJECTED = "rejected"
    UPSTREAM_4XX = "upstream_4xx"
    UNSUITED = "unsuited"
    UPSTREAM_DENIED = "upstream_denied"
    UPSTREAM_MISSING = "upstream_missing"
    RATE_LIMITED = "rate_limited"
    UPSTREAM_5XX = "upstream_5xx"
    REDIRECTED = "redirected"
    CONNECTION = "connection"
    TRUNCATED_STREAM = "truncated_stream"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out_of_memory"
    REFUSED_BREAKER = "refused_breaker"
    REFUSED_BUSY = "refused_busy"
    REFUSED_HOLD = "refused_hold"
    REFUSED_ADDRESS = "refused_address"
    REFUSED_REQUEST = "refused_request"

    @property
    def meaning(self) -> Meaning:
        """Entry of :data:`MEANING`."""
        return MEANING[self]


@dataclass(frozen=True, slots=True)
class Meaning:
    """Meaning of one ending.

    Parameters
    ----------
    reason
        Value of ``Outcome.reason``; a key of :data:`bot_orch.survival.causes.REASONS`.
    trips
        Whether it counts against the agent in the circuit breaker.
    retryable
        Whether an immediate retry with the same agent may succeed.
    attempted
        Whether the agent was called at all; if not, there is no outcome.
    what
        Short description for people.
    """

    reason: str
    trips: bool
    retryable: bool
    _: KW_ONLY
    attempted: bool
    what: str

    @property
    def cause(self) -> Cause:
        """Cause for survival models: completed, censored, or a competing failure."""
        return REASONS[self.reason]


def _m(reason: str, what: str, *, trips: bool = False, retryable: bool = False, attempted: bool = True) -> Meaning:
    return Meaning(reason, trips, retryable, attempted=attempted, what=what)


MEANING: Mapping[Ending, Meaning] = MappingProxyType(
    {
        Ending.COMPLETED: _m("completed", "a whole answer came back"),
        Ending.TIMEOUT_FIRST_BYTE: _m("timeout", "no part of an answer came within the first-byte timeout", trips=True),
        Ending.TIMEOUT_TOTAL: _m("timeout", "not finished within the agent's total timeout", trips=True),
        Ending.TIMEOUT_IDLE: _m("timeout", "the stream went silent for longer than the idle timeout", trips=True),
        Ending.CANCELLED_BY_CALLER: _m("cancelled", "the caller went away"),
        Ending.ABANDONED: _m("cancelled", "given up without a byte for longer than it usually needs", trips=True),
        Ending.CALLER_DEADLINE: _m("deadline", "the caller's own deadline, shorter than the agent's timeout, passed"),
        Ending.SHUTDOWN: _m("shutdown", "this process was stopping"),
        Ending.UNANSWERED: _m("unanswered", "no person answered in time"),
        Ending.REJECTED: _m("failed", "a person declined the task"),
        Ending.UPSTREAM_4XX: _m("not_applicable", "the agent found fault with the request"),
        Ending.UNSUITED: _m("failed", "the agent cannot serve this request; another one may"),
        Ending.UPSTREAM_DENIED: _m("not_applicable", "key refused, or no credit (401, 402, 403, 407)", trips=True),
        Ending.UPSTREAM_MISSING: _m("failed", "wrong address or model (404, 405, 410)"),
        Ending.RATE_LIMITED: _m("not_applicable", "the agent asked to slow down (429)", retryable=True),
        Ending.UPSTREAM_5XX: _m("failed", "the agent reported an error of its own", trips=True, retryable=True),
        Ending.REDIRECTED: _m("failed", "the agent pointed elsewhere; redirects are not followed", trips=True),
        Ending.CONNECTION: _m("failed", "no connection, or it broke", trips=True, retryable=True),
        Ending.TRUNCATED_STREAM: _m("failed", "the answer stopped before its end", trips=True),
        Ending.MALFORMED: _m("failed", "the answer could not be read", trips=True),
        Ending.TOO_LARGE: _m("failed", "the answer exceeded the size cap"),
        Ending.CRASHED: _m("crashed", "the function raised an error", trips=True),
        Ending.OUT_OF_MEMORY: _m("out_of_memory", "the function ran out of memory", trips=True),
        Ending.REFUSED_BREAKER: _m("not_applicable", "not asked: the circuit breaker is open", attempted=False),
        Ending.REFUSED_BUSY: _m("not_applicable", "not asked: the concurrency cap is reached", attempted=False),
        Ending.REFUSED_HOLD: _m("not_applicable", "not asked: the agent asked to slow down", attempted=False),
        Ending.REFUSED_ADDRESS: _m("failed", "its address is not allowed, or no longer", trips=True),
        Ending.REFUSED_REQUEST: _m("not_applicable", "not asked: the request exceeds the cap", attempted=False),
    }
)
