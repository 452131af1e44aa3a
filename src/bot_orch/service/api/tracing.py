"""Headers that follow a request to the agents: W3C trace context, ``X-Request-Id``, ``anthropic-beta``."""

from __future__ import annotations

from bot_orch.agents.base import BETA
from bot_orch.log.ids import time_ordered_id
from bot_orch.service.operations.tracing import CURRENT
from bot_orch.service.web.endpoint import Request

REQUEST_ID = "x-request-id"
_PASSED_ON = ("traceparent", "tracestate", REQUEST_ID, BETA)
_LONGEST = 512


def trace_headers(request: Request) -> dict[str, str]:
    """Headers to pass to agents; the answer gets the request's id, or a new one.

    A value that is not printable ASCII, or too long, is left out.
    """
    given = {name: request.headers.get(name.encode(), b"").decode("latin-1") for name in _PASSED_ON}
    found = {name: value for name, value in given.items() if value and _is_plain(value)}
    if (trace := CURRENT.get()) is not None:
        found |= trace.headers()  # what is called is a child of the round
    found.setdefault(REQUEST_ID, f"req-{time_ordered_id(request.runtime.clock.now_us())}")
    request.headers_out[REQUEST_ID] = found[REQUEST_ID]
    return found


def _is_plain(value: str) -> bool:
    return len(value) <= _LONGEST and value.isascii() and value.isprintable()
