"""What must happen at each fault: the label, the breaker's state and the lesson, as one table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

from fault_proxy import FaultServer

from bot_orch.agents.base import Attempt, CallFailure, CallRequest
from bot_orch.agents.breaker import BreakerSettings, BreakerState
from bot_orch.agents.endings import Ending
from bot_orch.agents.guard import Guard
from bot_orch.agents.kinds.openai import OpenAIRunner, OpenAISettings
from bot_orch.agents.limits import Limits, Retry
from bot_orch.survival.causes import Cause, cause_of

__all__ = ["MATRIX", "FaultCase", "GuardFactory", "guard_for", "problems_in"]

Mode = Literal["call", "stream"]
GuardFactory = Callable[[OpenAISettings, Limits, BreakerSettings], Guard]

_CLOSED, _OPEN = BreakerState.CLOSED, BreakerState.OPEN
_PATIENT = Limits(first_byte_s=60.0, total_s=60.0, max_reply_bytes=200_000)
# Long enough for a request to arrive, and for the first piece of an answer, on a slow machine.
# A broken guard that takes a role for content must end soon, too: hence limits on the stream.
_QUICK_FIRST = Limits(first_byte_s=1.0, total_s=60.0, idle_s=3.0, stream_total_s=3.0)
_QUICK_TOTAL = Limits(first_byte_s=60.0, total_s=1.5, idle_s=3.0, stream_total_s=3.0)
_QUICK_WHOLE = Limits(first_byte_s=60.0, total_s=1.5)
_QUICK_STREAM = Limits(first_byte_s=60.0, total_s=60.0, stream_total_s=1.5)
_QUICK_IDLE = Limits(first_byte_s=60.0, total_s=60.0, idle_s=1.0)
_HEARD_S = 60.0


@dataclass(frozen=True, slots=True)
class FaultCase:
    """One fault met in one mode, and what must come of it.

    ``text`` is what reaches the caller before it ends (without any, no piece at all reaches it, so another agent may be
    asked); ``caller`` says what the caller does of its own accord.
    """

    fault: str
    mode: Mode
    ending: Ending
    _: KW_ONLY
    breaker: BreakerState
    cause: Cause
    text: str = ""
    limits: Limits = _PATIENT
    deadline_s: float | None = None
    caller: Literal["waits", "cancels"] = "waits"

    @property
    def name(self) -> str:
        """For test reports."""
        return f"{self.fault}-{self.mode}-{self.ending}"


def _both(
    fault: str, ending: Ending, breaker: BreakerState, cause: Cause, limits: Limits = _PATIENT
) -> tuple[FaultCase, FaultCase]:
    call = FaultCase(fault, "call", ending, breaker=breaker, cause=cause, limits=limits)
    return call, replace(call, mode="stream")


E, C = Ending, Cause
MATRIX: tuple[FaultCase, ...] = (
    FaultCase("ok", "call", E.COMPLETED, breaker=_CLOSED, cause=C.COMPLETED, text="The answer is 4."),
    FaultCase("ok", "stream", E.COMPLETED, breaker=_CLOSED, cause=C.COMPLETED, text="The answer is 4."),
    *_both("bad_request", E.UPSTREAM_4XX, _CLOSED, C.CENSORED),
    *_both("context_length", E.UNSUITED, _CLOSED, C.OTHER_FAILURE),
    *_both("content_filter", E.UNSUITED, _CLOSED, C.OTHER_FAILURE),
    *_both("unsupported", E.UNSUITED, _CLOSED, C.OTHER_FAILURE),
    *_both("unknown_model", E.UNSUITED, _CLOSED, C.OTHER_FAILURE),
    *_both("too_long_elsewhere", E.UNSUITED, _CLOSED, C.OTHER_FAILURE),
    *_both("no_credit", E.UPSTREAM_DENIED, _OPEN, C.CENSORED),
    *_both("denied", E.UPSTREAM_DENIED, _OPEN, C.CENSORED),
    *_both("wrong_address", E.UPSTREAM_MISSING, _CLOSED, C.OTHER_FAILURE),
    *_both("rate_limited", E.RATE_LIMITED, _CLOSED, C.CENSORED),
    *_both("error", E.UPSTREAM_5XX, _OPEN, C.OTHER_FAILURE),
    *_both("unavailable", E.UPSTREAM_5XX, _OPEN, C.OTHER_FAILURE),
    *_both("redirect", E.REDIRECTED, _OPEN, C.OTHER_FAILURE),
    FaultCase("hang", "stream", E.TIMEOUT_FIRST_BYTE, breaker=_OPEN, cause=C.CENSORED, limits=_QUICK_FIRST),
    *_both("hang", E.TIMEOUT_TOTAL, _OPEN, C.CENSORED, limits=_QUICK_TOTAL),
    FaultCase("hang_midstream", "call", E.TIMEOUT_TOTAL, breaker=_OPEN, cause=C.CENSORED, limits=_QUICK_TOTAL),
    FaultCase(
        "hang_midstream", "stream", E.TIMEOUT_IDLE, breaker=_OPEN, cause=C.CENSORED, text="The ", limits=_QUICK_IDLE
    ),
    FaultCase("slow_drip", "call", E.TIMEOUT_TOTAL, breaker=_OPEN, cause=C.CENSORED, limits=_QUICK_TOTAL),
    FaultCase(
        "slow_drip", "stream", E.TIMEOUT_TOTAL, breaker=_OPEN, cause=C.CENSORED, text="drip ", limits=_QUICK_STREAM
    ),
    FaultCase(
        "steady", "stream", E.COMPLETED, breaker=_CLOSED, cause=C.COMPLETED, text="tick " * 20, limits=_QUICK_WHOLE
    ),
    FaultCase("role_then_hang", "stream", E.TIMEOUT_FIRST_BYTE, breaker=_OPEN, cause=C.CENSORED, limits=_QUICK_FIRST),
    FaultCase("role_then_hang", "stream", E.TIMEOUT_TOTAL, breaker=_OPEN, cause=C.CENSORED, limits=_QUICK_TOTAL),
    FaultCase("role_then_close", "stream", E.TRUNCATED_STREAM, breaker=_OPEN, cause=C.OTHER_FAILURE),
    FaultCase("role_then_error", "stream", E.UPSTREAM_5XX, breaker=_OPEN, cause=C.OTHER_FAILURE),
    FaultCase("role_then_too_long", "stream", E.UNSUITED, breaker=_CLOSED, cause=C.OTHER_FAILURE),
    FaultCase("empty_drip", "stream", E.TIMEOUT_FIRST_BYTE, breaker=_OPEN, cause=C.CENSORED, limits=_QUICK_FIRST),
    FaultCase("end_mark_alone", "stream", E.MALFORMED, breaker=_OPEN, cause=C.OTHER_FAILURE),
    FaultCase("half_of_two", "stream", E.TRUNCATED_STREAM, breaker=_OPEN, cause=C.OTHER_FAILURE, text="The "),
    FaultCase("truncated", "call", E.TRUNCATED_STREAM, breaker=_OPEN, cause=C.OTHER_FAILURE),
    FaultCase("truncated", "stream", E.TRUNCATED_STREAM, breaker=_OPEN, cause=C.OTHER_FAILURE, text="The answer "),
    FaultCase("no_end_mark", "stream", E.TRUNCATED_STREAM, breaker=_OPEN, cause=C.OTHER_FAILURE, text="The answer "),
    FaultCase("malformed", "call", E.MALFORMED, breaker=_OPEN, cause=C.OTHER_FAILURE),
    FaultCase("malformed", "stream", E.MALFORMED, breaker=_OPEN, cause=C.OTHER_FAILURE, text="The "),
    *_both("wrong_shape", E.MALFORMED, _OPEN, C.OTHER_FAILURE),
    FaultCase("error_inside", "stream", E.UPSTREAM_5XX, breaker=_OPEN, cause=C.OTHER_FAILURE, text="The "),
    *_both("huge", E.TOO_LARGE, _CLOSED, C.OTHER_FAILURE),
    FaultCase("huge_announced", "call", E.TOO_LARGE, breaker=_CLOSED, cause=C.OTHER_FAILURE),
    FaultCase("compressed", "call", E.MALFORMED, breaker=_OPEN, cause=C.OTHER_FAILURE),
    *_both("disconnect", E.CONNECTION, _OPEN, C.OTHER_FAILURE),
    *_both("not_http", E.MALFORMED, _OPEN, C.OTHER_FAILURE),
    FaultCase("hang", "call", E.CALLER_DEADLINE, breaker=_CLOSED, cause=C.CENSORED, deadline_s=1.0),
    FaultCase("hang", "stream", E.CALLER_DEADLINE, breaker=_CLOSED, cause=C.CENSORED, deadline_s=1.0),
    FaultCase(
        "hang_midstream", "stream", E.CALLER_DEADLINE, breaker=_CLOSED, cause=C.CENSORED, text="The ", deadline_s=1.5
    ),
    FaultCase("hang", "call", E.CANCELLED_BY_CALLER, breaker=_CLOSED, cause=C.CENSORED, caller="cancels"),
    FaultCase("hang", "stream", E.CANCELLED_BY_CALLER, breaker=_CLOSED, cause=C.CENSORED, caller="cancels"),
)


def guard_for(settings: OpenAISettings, limits: Limits, breaker: BreakerSettings) -> Guard:
    """The guard under test: one failure opens its breaker, nothing is retried."""
    return Guard("agent", OpenAIRunner(settings, limits), limits, retry=Retry(tries=1), breaker=breaker)


async def problems_in(cell: FaultCase, make: GuardFactory = guard_for) -> list[str]:
    """Run one cell against a fault server; what differs from the table."""
    async with FaultServer() as server:
        settings = OpenAISettings(server.base_url(cell.fault), "m")
        guard = make(settings, cell.limits, BreakerSettings(failures=1, open_s=60.0))
        try:
            ending, texts, cause = await _meet(cell, guard, server)
            text = "".join(texts)
            found = {
                "ending": (ending, cell.ending),
                "text": (text[: len(cell.text)] if "drip" in cell.text else text, cell.text),
                "begun": (bool(texts), bool(cell.text)),
                "cause": (cause, cell.cause),
                "breaker": (guard.breaker.state, cell.breaker),
                "in flight": (guard.view().in_flight, 0),
                "requests": (len(server.requests), 1),
            }
            if cell.caller == "cancels":
                await asyncio.wait_for(server.gone.wait(), _HEARD_S)  # the agent is told
        finally:
            await guard.close()
    return [f"{what}: {got!r}, expected {want!r}" for what, (got, want) in found.items() if got != want]


async def _meet(cell: FaultCase, guard: Guard, server: FaultServer) -> tuple[Ending | None, list[str], Cause | None]:
    """How one call ended, what reached the caller, and what the router learns."""
    attempts: list[Attempt] = []
    guard.observer = attempts.append
    texts: list[str] = []
    request = CallRequest("r-1", text="2 + 2?", deadline_s=cell.deadline_s)
    calling = asyncio.ensure_future(_consume(cell.mode, guard, request, texts))
    if cell.caller == "cancels":
        await asyncio.wait_for(server.arrived.wait(), _HEARD_S)
        calling.cancel()
    heard: list[Ending] = []
    try:
        await calling
    except asyncio.CancelledError:
        pass
    except CallFailure as failure:
        heard = [failure.ending]
    said = [attempt.ending for attempt in attempts]
    if len(said) != 1 or (heard and heard != said):  # what the caller hears and what the log says must agree
        return None, texts, None
    outcome = attempts[0].outcome()
    return said[0], texts, None if outcome is None else cause_of(outcome)


async def _consume(mode: Mode, guard: Guard, request: CallRequest, texts: list[str]) -> None:
    if mode == "call":
        texts.append((await guard.call(request)).text)
        return
    async with aclosing(guard.stream(request)) as chunks:
        async for chunk in chunks:
            texts.append(chunk.text)  # noqa: PERF401  what came before a failure must be kept
