"""The answer to a caller whose round failed: the most helpful of all failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bot_orch.agents.base import CallFailure
from bot_orch.agents.endings import Ending
from bot_orch.agents.rejections import read_error, unsuited_because
from bot_orch.service.problems import Problem

#: The request is at fault, or the caller no longer waits: another agent would not help.
FINAL = frozenset({Ending.UPSTREAM_4XX, Ending.CALLER_DEADLINE, Ending.CANCELLED_BY_CALLER, Ending.SHUTDOWN})

_STATUS = {
    Ending.UPSTREAM_4XX: 400,
    Ending.UNSUITED: 400,
    Ending.REFUSED_REQUEST: 413,
    Ending.RATE_LIMITED: 429,
    Ending.CALLER_DEADLINE: 504,
    Ending.TIMEOUT_FIRST_BYTE: 504,
    Ending.TIMEOUT_TOTAL: 504,
    Ending.TIMEOUT_IDLE: 504,
    Ending.UNANSWERED: 504,
    Ending.SHUTDOWN: 503,
    Ending.REFUSED_BREAKER: 503,
    Ending.REFUSED_BUSY: 503,
    Ending.REFUSED_HOLD: 503,
}
#: For the operator: what the endpoint says may quote the key.
_OF_THE_SERVICE = frozenset({Ending.UPSTREAM_DENIED, Ending.UPSTREAM_MISSING})
_OF_REQUESTS = frozenset({400, 404, 413, 422})  # statuses that mean the same here as at the endpoint
_MOST_HELPFUL = (Ending.UPSTREAM_4XX, Ending.UNSUITED, Ending.REFUSED_REQUEST, Ending.RATE_LIMITED, Ending.UPSTREAM_5XX)


def problem_of_round(failures: Sequence[CallFailure], agents: Sequence[str]) -> Problem:
    """The problem to answer with; ``failures`` are pairs of agent and failure, in order.

    A failure that no other agent could mend stands for itself. Else what was wrong with the request comes first (the
    caller can change it), then a rate limit, then an agent's own error, then anything else; the last one of its kind.
    """
    chosen = len(failures) - 1
    if failures[chosen].ending not in FINAL:
        chosen = min(range(len(failures)), key=lambda index: (_rank(failures[index]), -index))
    failure = failures[chosen]
    asked = any(attempt.ending.meaning.attempted for each in failures for attempt in each.attempts)
    headers = {} if failure.retry_after_s is None else {"retry-after": str(max(1, math.ceil(failure.retry_after_s)))}
    if asked and failure.ending is not Ending.SHUTDOWN:
        headers["x-should-retry"] = "false"  # other agents were asked already; clients would multiply the calls
    tried = [_tried(agent, each) for agent, each in zip(agents, failures, strict=True)]
    details = {"ending": str(failure.ending), "agent": agents[chosen], "failures": tried}
    error = None if failure.ending in _OF_THE_SERVICE else read_error(failure.raw)
    if error is None:
        return Problem(_status(failure), str(failure.ending), str(failure), headers=headers, details=details)
    code = error.code if error.code is not None and not error.code.isdecimal() else str(failure.ending)
    return Problem(
        _status(failure), code, error.message, kind=error.type, param=error.param, headers=headers, details=details
    )


def reason_of(failure: CallFailure) -> str | None:
    """Why an agent rejected a request, such as ``context length``; None if it did not say."""
    error = read_error(failure.raw)
    return None if error is None else unsuited_because(error)


def _rank(failure: CallFailure) -> int:
    known = failure.ending in _MOST_HELPFUL and (failure.raw is not None or failure.status is None)
    return _MOST_HELPFUL.index(failure.ending) if known else len(_MOST_HELPFUL)


def _status(failure: CallFailure) -> int:
    rejected = failure.ending in (Ending.UPSTREAM_4XX, Ending.UNSUITED)
    if rejected and failure.status is not None and failure.status in _OF_REQUESTS:
        return failure.status
    return _STATUS.get(failure.ending, 502)


def _tried(agent: str, failure: CallFailure) -> dict[str, Any]:
    return {"agent": agent, "ending": str(failure.ending), "status": failure.status}
