"""The gateway in front of an endpoint that misbehaves: what the client gets, what the breaker does, what is learned."""

import asyncio
import contextlib
import json
import threading

import pytest
from fault_proxy import FaultServer
from service_running import PATIENCE_S, agent_limits, agent_retries, until

from bot_orch.agents.breaker import BreakerSettings

CONFIG = """
version: 1
database: {database}
listen: {{port: {port}}}
router: {{policy: bot, attempts: 1, success_reward: 1.0}}
agents:
  - id: upstream
    kind: openai
    LIMITS
    base_url: "URL"
    model: m
"""
PATIENT = "first_byte_s: 60, timeout_s: 60, max_reply_bytes: 200000"
HURRIED = "first_byte_s: 20, timeout_s: 0.5"
FIRST = "first_byte_s: 0.5, timeout_s: 60"
SOON = "first_byte_s: 20, idle_s: 0.5"
LONG = "first_byte_s: 20, stream_total_s: 1"
BRIEF = "first_byte_s: 20, timeout_s: 1.5"  # of a whole answer; the stream takes two seconds
BODY = {"model": "auto", "messages": [{"role": "user", "content": "2 + 2"}]}

#: fault, limits, status of a call, code of its error (the label of the attempt), breaker afterwards
CELLS = [
    ("ok", PATIENT, 200, None, "closed"),
    ("rate_limited", PATIENT, 429, "rate_limited", "closed"),
    ("bad_request", PATIENT, 400, "upstream_4xx", "closed"),
    ("context_length", PATIENT, 400, "context_length_exceeded", "closed"),
    ("content_filter", PATIENT, 400, "unsuited", "closed"),
    ("unsupported", PATIENT, 400, "unsuited", "closed"),
    ("unknown_model", PATIENT, 404, "model_not_found", "closed"),
    ("too_long_elsewhere", PATIENT, 413, "unsuited", "closed"),
    ("no_credit", PATIENT, 502, "upstream_denied", "open"),
    ("wrong_address", PATIENT, 502, "upstream_missing", "closed"),
    ("error", PATIENT, 502, "upstream_5xx", "open"),
    ("hang", HURRIED, 504, "timeout_total", "open"),
    ("slow_drip", HURRIED, 504, "timeout_total", "open"),
    ("truncated", PATIENT, 502, "truncated_stream", "open"),
    ("malformed", PATIENT, 502, "malformed", "open"),
    ("huge", PATIENT, 502, "too_large", "closed"),
    ("redirect", PATIENT, 502, "redirected", "open"),
    ("disconnect", PATIENT, 502, "connection", "open"),
]


@pytest.fixture
def faults():
    """A fault server in a thread."""
    loop, ready, box = asyncio.new_event_loop(), threading.Event(), {}

    async def main():
        async with FaultServer() as server:
            box["server"], box["stop"] = server, asyncio.Event()
            ready.set()
            await box["stop"].wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    yield box["server"]
    loop.call_soon_threadsafe(box["stop"].set)
    thread.join(PATIENCE_S)
    loop.close()


@pytest.fixture
def launch(start, faults, monkeypatch):
    """Starts a service whose circuits open at the first failure, in front of a fault, with these limits."""
    agent_retries(monkeypatch, 1, breaker=BreakerSettings(1, 60.0))

    def begin(fault, limits):
        own = agent_limits(monkeypatch, limits).replace(", ", "\n    ")
        return start(CONFIG.replace("URL", faults.base_url(fault)).replace("LIMITS", own))

    return begin


def breaker(service):
    (agent,) = service.get("/v1/agents").json()
    return agent["circuit"]


def ending_of(service, decision_id):
    """The label of the only attempt; its row is written behind the answer."""
    (attempt,) = until(lambda: service.get(f"/v1/decisions/{decision_id}").json().get("attempts"))
    return attempt["ending"]


@pytest.mark.parametrize(("fault", "limits", "status", "code", "state"), CELLS, ids=[cell[0] for cell in CELLS])
def test_call(launch, fault, limits, status, code, state):
    service = launch(fault, limits)
    answer = service.post("/v1/chat/completions", BODY)
    assert answer.status == status, answer
    if code is None:
        assert answer.json()["choices"][0]["message"]["content"] == "The answer is 4."
    else:
        error = answer.json()["error"]
        assert error["code"] == code
        assert answer.headers["x-should-retry"] == "false", "the official client would multiply the calls"
        assert ("retry-after" in answer.headers) == (status in (429, 503) or fault == "no_credit")
        code = error["details"]["ending"]
    assert breaker(service) == state
    assert ending_of(service, answer.headers["x-bot-orch-decision-id"]) == (code or "completed")


@pytest.mark.parametrize(
    ("fault", "limits", "text", "ends"),
    [
        ("ok", PATIENT, "The answer is 4.", "[DONE]"),
        ("truncated", PATIENT, "The answer ", "truncated_stream"),
        ("malformed", PATIENT, "The ", "malformed"),
        ("hang_midstream", SOON, "The ", "timeout_idle"),
        ("slow_drip", LONG, "drip ", "timeout_total"),
        ("steady", BRIEF, "tick " * 20, "[DONE]"),
        ("half_of_two", PATIENT, "The Four ", "truncated_stream"),
    ],
)
def test_stream(launch, fault, limits, text, ends):
    """What has arrived is delivered; a stream that breaks off says so instead of ending as if it were whole."""
    service = launch(fault, limits)
    body = service.post("/v1/chat/completions", {**BODY, "stream": True}).body.decode()
    events = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    said = ""
    for event in events:
        with contextlib.suppress(json.JSONDecodeError, KeyError, IndexError):
            said += json.loads(event)["choices"][0]["delta"].get("content") or ""
    whole = ends == "[DONE]"
    said = said[: len(text)] if fault == "slow_drip" else said
    assert said == text or (not whole and said and text.startswith(said)), "what broke off may lose its last piece"
    assert ends in events[-1]
    assert ("[DONE]" in body) == whole


@pytest.mark.parametrize(
    ("fault", "limits", "status", "code", "state"),
    [
        ("hang", FIRST, 504, "timeout_first_byte", "open"),
        ("role_then_hang", FIRST, 504, "timeout_first_byte", "open"),
        ("role_then_hang", HURRIED, 504, "timeout_total", "open"),
        ("empty_drip", FIRST, 504, "timeout_first_byte", "open"),
        ("role_then_close", PATIENT, 502, "truncated_stream", "open"),
        ("role_then_error", PATIENT, 502, "upstream_5xx", "open"),
        ("role_then_too_long", PATIENT, 400, "unsuited", "closed"),
        ("end_mark_alone", PATIENT, 502, "malformed", "open"),
        ("rate_limited", PATIENT, 429, "rate_limited", "closed"),
        ("error", PATIENT, 502, "upstream_5xx", "open"),
    ],
)
def test_stream_that_never_began(launch, fault, limits, status, code, state):
    """A role or an empty piece is no answer: the failure has a status of its own, as if nothing had come."""
    service = launch(fault, limits)
    answer = service.post("/v1/chat/completions", {**BODY, "stream": True})
    assert (answer.status, answer.json()["error"]["code"]) == (status, code)
    assert breaker(service) == state
    assert ending_of(service, answer.headers["x-bot-orch-decision-id"]) == code
