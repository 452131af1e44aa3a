"""Traces: one span per round and one per attempt, under the caller's, with the attributes of the conventions."""

import sys

import otel_stub
import pytest
from service_running import BASE, until

from bot_orch.errors import MissingExtraError
from bot_orch.eventlog.stores.open import open_log
from bot_orch.service.config import TracesConfig, parse_config
from bot_orch.service.operations.tracing import CURRENT, Traces, note_reply
from bot_orch.service.server import make_server

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CHAT = {"model": "careful", "messages": [{"role": "user", "content": "PROMPT"}]}
BAD = "  - {{id: bad, kind: simulated, settings: {{median_s: 0.0, sigma: 0, crash: 1.0}}}}\n"


@pytest.fixture
def traced(start, monkeypatch):
    provider = otel_stub.install(monkeypatch)
    service = start(BASE + BAD + "traces: {{}}\n")
    return service, provider.spans


def ended(spans, count):
    until(lambda: len(spans) == count and all(span.end_time for span in spans))
    kinds = [span.kind.name for span in spans]
    assert kinds.count("SERVER") == 1
    return next(s for s in spans if s.kind.name == "SERVER"), [s for s in spans if s.kind.name == "CLIENT"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_is_a_span_under_the_callers(traced, stream):
    service, spans = traced
    answer = service.post("/v1/chat/completions", {**CHAT, "stream": stream}, headers={"traceparent": PARENT})
    assert answer.status == 200
    round_, (attempt,) = ended(spans, 2)
    assert round_.parent == (PARENT[3:35], PARENT[36:52]) and round_.trace_id == PARENT[3:35]
    assert attempt.parent == (round_.trace_id, round_.span_id)
    assert (round_.name, attempt.name) == ("chat careful", "chat careful")
    told = round_.attributes
    assert told["gen_ai.operation.name"] == "chat" and told["gen_ai.request.model"] == "careful"
    assert told["bot_orch.decision.id"] == answer.headers["x-bot-orch-decision-id"]
    assert told["bot_orch.propensity"] == float(answer.headers["x-bot-orch-propensity"])
    assert told["gen_ai.response.model"] == told["bot_orch.agent"] == "careful"
    assert told["http.response.status_code"] == 200 and "error.type" not in told
    for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
        assert told[name] == attempt.attributes[name]
    assert attempt.attributes["bot_orch.cost_usd"] == 0.1 and attempt.attributes["bot_orch.attempt"] == 1
    assert attempt.start_time <= attempt.end_time <= round_.end_time
    assert "PROMPT" not in str([(span.name, span.attributes) for span in spans])


def test_failures_and_tasks(traced):
    service, spans = traced
    answer = service.post("/v1/tasks", {"task": {"text": "PROMPT"}, "eligible": ["bad"]})
    assert answer.status >= 500
    round_, attempts = ended(spans, 2)
    assert round_.name == "invoke_agent" and round_.parent is None
    assert round_.attributes["error.type"] == str(answer.status)
    assert attempts[0].attributes["error.type"] == "crashed" and attempts[0].status.status_code.name == "ERROR"


def test_a_background_round_and_what_is_no_round(traced):
    service, spans = traced
    assert service.post("/v1/decisions").status == 200 and service.get("/v1/models").status == 200
    assert spans == []
    body = {"task": {"text": "x"}, "eligible": ["quick"], "background": True}
    assert service.post("/v1/tasks", body).status == 202
    round_, (attempt,) = ended(spans, 2)
    assert attempt.parent == (round_.trace_id, round_.span_id)


def test_refused_requests_end_their_span(traced):
    service, spans = traced
    assert service.post("/v1/chat/completions", raw=b"{").status == 400
    round_, _ = ended(spans, 1)
    assert round_.attributes["http.response.status_code"] == 400


def test_what_an_upstream_says(monkeypatch):
    provider = otel_stub.install(monkeypatch)
    trace = Traces(TracesConfig()).begin("/v1/chat/completions", {})
    assert trace.headers()["traceparent"].startswith("00-")
    CURRENT.set(trace)
    try:
        for raw in (
            b'{"id": "chatcmpl-1", "model": "gpt-x-2026", "choices": [{"delta": {"content": "SECRET"}}]}',
            b'{"id": "chatcmpl-1", "model": "gpt-x-2026", "choices": [{"finish_reason": "stop"}]}',
            b'{"choices": [{"finish_reason": "length"}, {"finish_reason": "stop"}]}',
            b"[1, 2]",
            b"not json",
        ):
            note_reply(raw)
        note_reply(None)
    finally:
        CURRENT.set(None)
    trace.end(200, model="auto", told={})
    (span,) = provider.spans
    assert span.attributes["gen_ai.response.model"] == "gpt-x-2026"
    assert span.attributes["gen_ai.response.id"] == "chatcmpl-1"
    assert span.attributes["gen_ai.response.finish_reasons"] == ["stop", "length"]
    assert "SECRET" not in str(span.attributes)


def test_an_endpoint_makes_an_exporting_provider(monkeypatch):
    otel_stub.install(monkeypatch)
    traces = Traces(TracesConfig(endpoint="http://127.0.0.1:4318/v1/traces", service_name="mine"))
    own = traces._own
    assert own.resource == {"service.name": "mine"}
    assert own.processors[0].exporter.endpoint == "http://127.0.0.1:4318/v1/traces"
    traces.close()
    assert own.closed


def test_without_the_extra_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtraError, match="otel"):
        Traces(TracesConfig())


def test_off_by_default(service):
    assert service.runtime.traces is None
    assert service.post("/v1/chat/completions", CHAT).status == 200
    assert CURRENT.get() is None


def test_with_the_real_sdk():
    """Only where the extra is installed."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace = Traces(TracesConfig(), provider).begin("/v1/chat/completions", {b"traceparent": PARENT.encode()})
    assert trace.headers()["traceparent"].startswith(f"00-{PARENT[3:35]}-")
    trace.end(200, model="auto", told={"x-bot-orch-propensity": "0.5"})
    (span,) = kept.get_finished_spans()
    assert span.parent.trace_id == int(PARENT[3:35], 16) and span.attributes["bot_orch.propensity"] == 0.5


def test_a_start_without_the_extra_leaves_the_log_free(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    text = BASE.format(database=tmp_path / "log.sqlite", port=0) + "traces: {}\n"
    runtime = make_server(parse_config(text)).config.app.state.runtime
    with pytest.raises(MissingExtraError):
        runtime.open()
    open_log(tmp_path / "log.sqlite", writing=True).close()
